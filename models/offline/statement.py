"""One statement of a user made into one fact, or into nothing."""

import re
from dataclasses import dataclass
from datetime import date

from mnemic.models.offline import form
from mnemic.models.offline.dates import Resolved
from mnemic.models.offline.families import About, family_of
from mnemic.models.offline.family import Family
from mnemic.models.offline.lexicon import MONTHS, WEEKDAYS
from mnemic.models.offline.pieces import expand, pattern
from mnemic.models.offline.rewrite import prefixes, third
from mnemic.models.offline.subjects import Reading, Voice, is_work, read
from mnemic.models.offline.text import words
from mnemic.prompts.categories import Category

_UNITS = expand("<STATEMENT_UNITS>")
_PERIODS = expand("<STATEMENT_PERIODS>")
#: A time at the front goes to the end, so that the subject comes first.
_LEAD = pattern("<STATEMENT_LEAD>", ignore_case=True)
_LEADING_ADVERB = pattern("<STATEMENT_LEADING_ADVERB>", ignore_case=True)
_NOTHING_LEAD = pattern("<STATEMENT_NOTHING_LEAD>", ignore_case=True)
_DURATION = pattern("<STATEMENT_DURATION>")
_ATTRIBUTE_VALUE_EMPTY = pattern("<STATEMENT_ATTRIBUTE_VALUE_EMPTY>")
_ATTRIBUTE_CATEGORIES: tuple[tuple[re.Pattern[str], Category, int], ...] = (
    (re.compile(r"favou?rite|preferred|editor"), "preferences", 2),
    (re.compile(r"goal|dream"), "goals", 4),
    (re.compile(r"deadline|budget"), "projects", 4),
    (re.compile(r"hobb|fear"), "interests", 3),
    (re.compile(r"diet"), "constraints", 5),
    (re.compile(r""), "profile", 4),
)


@dataclass(frozen=True)
class Statement:
    """A statement worth keeping, rewritten."""

    content: str
    subject: str
    category: Category
    importance: int
    #: About a team or a project rather than about a person.
    shared: bool


def rewritten(text: str, voice: Voice, today: date) -> Statement | None:
    """The fact a statement makes, or None: nothing that lasts, or nothing that can be rewritten cleanly."""
    text, lead = _without_lead(text)
    reading = read(text, voice)
    if reading is None:
        return None
    for rest in prefixes(reading.predicate.rest, reading.predicate):
        if lead and re.search(r", (?:which|who|where)\b", rest):
            continue  # the time would seem to belong to the clause at the end
        found = _fact(reading, rest, lead, voice, today)
        if found is not None:
            return found
    return None


def _without_lead(text: str) -> tuple[str, str]:
    text = _LEADING_ADVERB.sub(
        lambda match: f"{match['subject']} {match['adverb'].lower()} ", _NOTHING_LEAD.sub("", text)
    )
    match = _LEAD.match(text)
    if match is None:
        return text, ""
    lead = match["lead"]
    if lead.removesuffix("s") in WEEKDAYS and lead.endswith("s"):
        return text[match.end() :], f"on {lead}"
    return text[match.end() :], lead if lead.split()[0] in (*WEEKDAYS, *MONTHS) else lead[0].lower() + lead[1:]


def _fact(reading: Reading, rest: str, lead: str, voice: Voice, today: date) -> Statement | None:
    resolved = third(reading, f"{rest} {lead}" if lead else rest, voice, today)
    if resolved is None or _names_itself(reading, resolved.text):
        return None
    kept = _kept(reading, rest, resolved, lead, voice)
    if kept is None:
        return None
    content = form.sentence(f"{reading.text} {reading.predicate.text} {_as_of(reading, resolved, today)}")
    if not form.is_well_formed(content):
        return None
    category, importance, name = kept
    return Statement(content, name, category, importance, reading.kind in ("team", "thing"))


def _kept(reading: Reading, rest: str, resolved: Resolved, lead: str, voice: Voice) -> tuple[Category, int, str] | None:
    """Category, importance and subject of a statement worth keeping."""
    if reading.kind == "attribute":
        return _attribute(reading, rest)
    family = _family(reading, f"{rest} {lead}".strip(), resolved, voice)
    return None if family is None else (family.category, family.importance, reading.name)


def _attribute(reading: Reading, rest: str) -> tuple[Category, int, str] | None:
    if reading.predicate.lemma != "be" or not rest or _ATTRIBUTE_VALUE_EMPTY.match(rest):
        return None
    category, importance = next((c, i) for pattern, c, i in _ATTRIBUTE_CATEGORIES if pattern.search(reading.attribute))
    return category, importance, reading.name


def _family(reading: Reading, rest: str, resolved: Resolved, voice: Voice) -> Family | None:
    predicate, dated = reading.predicate, resolved.dated
    if reading.kind == "team" and voice.group is None and not is_work(predicate.lemma, rest):
        return None
    about: dict[str, About] = {"thing": "project", "possession": "project", "team": "team", "topic": "topic"}
    return family_of(predicate, rest, about.get(reading.kind, "person"), dated=dated)


def _names_itself(reading: Reading, said: str) -> bool:
    """`Bo is Bo`: it tells nothing that the subject does not."""
    head = said.partition(",")[0]
    itself = set(words(f"{reading.text} {reading.name}"))
    return reading.kind != "attribute" and reading.predicate.lemma == "be" and set(words(head)) <= itself


def _as_of(reading: Reading, resolved: Resolved, today: date) -> str:
    """A duration counts from some day: say which."""
    if (
        reading.predicate.aspect in ("perfect", "perfect progressive")
        and not resolved.dated
        and _DURATION.search(resolved.text)
    ):
        return f"{resolved.text} as of {MONTHS[today.month - 1]} {today.year}"
    return resolved.text
