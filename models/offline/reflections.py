"""The step `extract_reflections` without a model."""

import re
from collections.abc import Iterable

from mnemic.models.offline import form
from mnemic.models.offline.agreements import is_agreement, without_lead
from mnemic.models.offline.clauses import statements
from mnemic.models.offline.conversation import Said, addresses_assistant, known_names, user_sentences
from mnemic.models.offline.episode import episode
from mnemic.models.offline.rewrite import third
from mnemic.models.offline.statement import rewritten
from mnemic.models.offline.subjects import Voice, read
from mnemic.models.offline.text import content_stems
from mnemic.models.offline.wishes import wish
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, ExtractReflectionsOutput, ReflectionDraft

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
    known = [content_stems(sentence) for text in _texts(given) for sentence in _SENTENCE_END.split(text)]
    names = known_names(given.lines)
    to_assistant = addresses_assistant(given.lines)
    user: list[ReflectionDraft] = []
    group: list[ReflectionDraft] = []
    for said in user_sentences(given.lines):
        voice = Voice(name=said.line.speaker, group=given.group, known=names)
        found = _wish(said, voice) if to_assistant else None
        target = user
        if found is None:
            found, target = _agreement(said, voice), group
        if found is None:
            found, target = _preference(said, voice), user
        if found is not None and _is_new(found.content, known) and not (found.private and target is group):
            target.append(found)
            known.append(content_stems(found.content))
    return ExtractReflectionsOutput(
        agent=[], group=group, user=user, session=[], episode=episode(given.lines, given.group)
    )


def _texts(given: ExtractReflectionsInput) -> Iterable[str]:
    yield from (standing.text for standing in given.standing)
    yield from given.new_facts


def _is_new(content: str, known: list[frozenset[str]]) -> bool:
    stems = content_stems(content)
    return not any(stems <= other for other in known)


def _wish(said: Said, voice: Voice) -> ReflectionDraft | None:
    content = wish(said.text, voice.name)
    return None if content is None else _draft(said, content, "style", 4)


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


def _preference(said: Said, voice: Voice) -> ReflectionDraft | None:
    if not _STRONG.search(said.text):
        return None
    for text in statements(said.text, voice.known):
        fact = rewritten(text, voice, said.line.said_at.date())
        if fact is not None and fact.category in ("preferences", "constraints") and not fact.shared:
            return _draft(said, fact.content, fact.category, max(fact.importance, 3))
    return None
