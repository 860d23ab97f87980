"""The step `extract_reflections` without a model."""

import re
from collections.abc import Iterable

from mnemic.models.offline import form
from mnemic.models.offline.agreements import is_agreement, without_lead
from mnemic.models.offline.capitals import known_names
from mnemic.models.offline.clauses import statements
from mnemic.models.offline.conversation import Said, addresses_assistant, user_sentences
from mnemic.models.offline.episode import episode
from mnemic.models.offline.facts import named_statements
from mnemic.models.offline.people import People
from mnemic.models.offline.regards import plain, regard
from mnemic.models.offline.rewrite import third
from mnemic.models.offline.statement import rewritten
from mnemic.models.offline.subjects import Voice, read
from mnemic.models.offline.text import content_stems
from mnemic.models.offline.wishes import is_of_group, wish
from mnemic.policy.formation.orders import steers
from mnemic.prompts.extract_reflections import (
    ExtractReflectionsInput,
    ExtractReflectionsOutput,
    ReflectionDraft,
    StandingText,
)

#: A preference said with such a word is meant to last.
_STRONG = re.compile(
    r"\b(?:really|absolutely|strongly|by far|never|always|can't stand|can't bear|under no circumstances|deeply)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_RULE = re.compile(
    r"our (?:rule|policy|convention|agreement|principle|ground rule|working agreement)s? (?:is|are) (?P<rest>.+)",
    re.IGNORECASE,
)


def extract_reflections(given: ExtractReflectionsInput) -> ExtractReflectionsOutput:
    """Standing wishes and strong preferences of users, agreements of the group, and what was talked about.

    Nothing is concluded about the agent or the session: rules cannot. What already stands in context or among the new
    facts is left out.
    """
    standing = standing_stems(given.standing)
    known = standing + [content_stems(text) for text in given.new_facts]
    names = known_names(given.lines)
    people = People(given.lines, names)
    alone = len({line.speaker for line in given.lines if line.role == "user"}) == 1
    to_assistant = addresses_assistant(given.lines)
    user: list[ReflectionDraft] = []
    group: list[ReflectionDraft] = []
    for said in user_sentences(given.lines):
        voice = Voice(name=said.line.speaker, group=given.group, known=names, people=people.somebody, alone=alone)
        for found, of_group in _drawn(said, voice, people, to_assistant):
            fresh = is_new(found.content, known) and is_new(plain(found.content), standing)
            if fresh and not (found.private and of_group):
                (group if of_group else user).append(found)
                known.append(content_stems(found.content))
    return ExtractReflectionsOutput(
        agent=[],
        group=group,
        user=user,
        session=[],
        episode=episode(given.lines, given.group),
        nothing_else=True,
    )


def standing_stems(standing: Iterable[StandingText]) -> list[frozenset[str]]:
    """What each sentence in context says, guides reduced to their statements."""
    return [content_stems(plain(text)) for whole in standing for text in _SENTENCE_END.split(whole.text)]


def is_new(content: str, known: Iterable[frozenset[str]]) -> bool:
    """Whether no known sentence says all that this one does."""
    stems = content_stems(content)
    return not any(stems <= other for other in known)


def _drawn(said: Said, voice: Voice, people: People, to_assistant: bool) -> list[tuple[ReflectionDraft, bool]]:
    """What a sentence teaches, each with whether it is the group's; an order about this memory is worth none."""
    if steers(said.text):
        return []
    wanted = wish(said.text, voice.name, voice.group) if to_assistant else None
    if wanted is not None:
        of_group = is_of_group(wanted, voice.group)
        # a manner of one person is personal and never shared; how a group works is its own
        return [(_draft(said, wanted, "projects" if of_group else "style", 4), of_group)]
    agreed = _agreement(said, voice)
    if agreed is not None:
        return [(agreed, True)]
    return _regards(said, voice, people)


def _draft(said: Said, content: str, category: str, importance: int) -> ReflectionDraft:
    return ReflectionDraft.model_validate(
        {
            "content": content,
            "category": category,
            "importance": importance,
            "private": said.private,
            "messages": [said.line.number],
        }
    )


def _agreement(said: Said, voice: Voice) -> ReflectionDraft | None:
    if voice.group is None:
        return None
    for text in statements(said.text, voice.known):
        if is_agreement(text):
            content = _agreed(text, voice, said)
            if content is not None:
                return _draft(said, content, "projects", 4)
    return None


def _agreed(text: str, voice: Voice, said: Said) -> str | None:
    """`Harbor agreed to ...`, or the rule itself behind `our rule is`."""
    rule = _RULE.match(text)
    reading = read("we agree " + rule["rest"] if rule else without_lead(text), voice)
    if reading is None:
        return None
    resolved = third(reading, reading.predicate.rest, voice, said.line.said_at.date())
    if resolved is None:
        return None
    verb = "has the rule" if rule else reading.predicate.text
    content = form.sentence(f"{reading.text} {verb} {resolved.text}")
    return content if form.is_well_formed(content, form.MAX_REFLECTION_WORDS) else None


def _regards(said: Said, voice: Voice, people: People) -> list[tuple[ReflectionDraft, bool]]:
    """How to deal with somebody: what plans and suggestions have to respect, whatever the talk is about."""
    found: list[tuple[ReflectionDraft, bool]] = []
    for text in named_statements(said, voice.known, people):
        fact = rewritten(text, voice, said.line.said_at.date())
        content = None if fact is None else regard(fact, is_strong=bool(_STRONG.search(said.text)))
        if fact is not None and content is not None and form.is_well_formed(content, form.MAX_REFLECTION_WORDS):
            of_group = fact.shared and voice.group is not None
            found.append((_draft(said, content, fact.category, max(fact.importance, 3)), of_group))
    return found
