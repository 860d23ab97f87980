"""The step `extract_facts` without a model."""

from dataclasses import dataclass, replace

from mnemic.models.offline.agreements import is_agreement
from mnemic.models.offline.clauses import expanded, statements
from mnemic.models.offline.compare import relation, says_of_others
from mnemic.models.offline.conversation import Said, addresses_assistant, known_names, user_sentences
from mnemic.models.offline.corrections import correction, puts_instead
from mnemic.models.offline.months import with_month
from mnemic.models.offline.people import People
from mnemic.models.offline.relations import introduced
from mnemic.models.offline.statement import Statement, rewritten
from mnemic.models.offline.subjects import Voice
from mnemic.models.offline.wishes import wish
from mnemic.prompts.extract_facts import ExtractFactsInput, ExtractFactsOutput, FactDraft

#: A correction reaches back over so many statements of its speaker.
_CORRECTABLE = 3
#: A month stays the one spoken of over so many messages.
_TALK = 2


@dataclass(frozen=True)
class Found:
    """A fact with the statement it was made from."""

    statement: str
    fact: Statement
    said: Said
    messages: tuple[int, ...]


def extract_facts(given: ExtractFactsInput) -> ExtractFactsOutput:
    """The durable statements that users plainly make, the most important ones where there are more than allowed.

    A later statement takes the place of an earlier one that it repeats, corrects or contradicts.
    """
    found = current(found_facts(given))
    ranked = sorted(range(len(found)), key=lambda index: (-found[index].fact.importance, index))
    kept = sorted(ranked[: max(given.max_facts, 0)])
    # all that rules can see
    return ExtractFactsOutput(facts=[_draft(found[index], given.group) for index in kept], nothing_else=True)


def found_facts(given: ExtractFactsInput) -> list[Found]:
    """Every fact that users state, in order, corrections applied."""
    names = known_names(given.lines)
    people = People(given.lines, names)
    to_assistant = addresses_assistant(given.lines)
    found: list[Found] = []
    for said in user_sentences(given.lines):
        voice = Voice(said.line.speaker, given.group, names, people.somebody, alone=people.alone)
        if _corrected(found, said, voice) or (to_assistant and wish(said.text, voice.name)):
            continue
        before = len(found)
        for text in named_statements(said, names, people):
            fact = rewritten(text, voice, said.line.said_at.date())
            if fact is not None and not (given.group and is_agreement(text)):
                if puts_instead(said.text):
                    _withdraw(found, fact, voice)
                found.append(Found(text, fact, said, (said.line.number,)))
        person = introduced(said.text, voice)
        if person is not None and not any(person.subject in earlier.fact.content for earlier in found[before:]):
            found.append(Found(said.text, person, said, (said.line.number,)))
    return found


def named_statements(said: Said, names: frozenset[str], people: People) -> list[str]:
    """The statements of a sentence, `he` or `she` at the start of one replaced by the person meant."""
    whole = expanded(said.text)
    earlier = people.text(said.line).partition(whole)[0]
    found = []
    for text in statements(said.text, names):
        before = f"{earlier} {whole.partition(text)[0] if text in whole else ''}"
        talk = f"{people.said_before(said.line, _TALK)} {before}"
        found.append(people.named(with_month(text, talk, said.line.said_at.date()), before, said.line))
    return found


def _corrected(found: list[Found], said: Said, voice: Voice) -> bool:
    """Whether the sentence corrects a fact just found; that fact is then put right."""
    change = correction(said.text)
    if change is None:
        return False
    for index in _correctable(found, voice):
        earlier = found[index]
        text = change.applied(earlier.statement)
        fact = rewritten(text, voice, earlier.said.line.said_at.date()) if text else None
        if text and fact is not None:
            messages = tuple(sorted({*earlier.messages, said.line.number}))
            found[index] = replace(earlier, statement=text, fact=fact, messages=messages)
            return True
    return False


def _correctable(found: list[Found], voice: Voice) -> list[int]:
    """Where the last statements of a speaker stand, the last one first."""
    own = [index for index, earlier in enumerate(found) if earlier.said.line.speaker == voice.name]
    return own[-_CORRECTABLE:][::-1]


def _withdraw(found: list[Found], fact: Statement, voice: Voice) -> None:
    """Takes out what the speaker has just said in the same words of another name, number or time."""
    for index in _correctable(found, voice):
        if says_of_others(fact.content, found[index].fact.content):
            del found[index]
            return


def current(found: list[Found]) -> list[Found]:
    """Without what a later one repeats with the same or more detail, or contradicts, and without bare repetitions."""
    kept: list[Found] = []
    for new in found:
        relations = [relation(new.fact.content, old.fact.content) for old in kept]
        if "repeats" in relations:
            continue
        kept = [old for old, how in zip(kept, relations, strict=True) if how == "differs"]
        kept.append(new)
    return kept


def _draft(found: Found, group: str | None) -> FactDraft:
    fact = found.fact
    return FactDraft(
        content=fact.content,
        subject=fact.subject,
        scope="group" if group and fact.shared and not found.said.private else "user",
        category=fact.category,
        importance=fact.importance,
        private=found.said.private,
        provenance="asserted",
        messages=list(found.messages),
    )
