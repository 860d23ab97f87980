"""The statements of a memory, each ready to stand among others on the same subject."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from mnemic.models.offline.compare import relation
from mnemic.models.offline.compression import AS_IT_IS, TELEGRAPHIC, keeps_weight, tightened
from mnemic.models.offline.dates import UNRESOLVED, day_text, resolve
from mnemic.models.offline.frames import analysed
from mnemic.models.offline.lexicon import DANGLING
from mnemic.models.offline.prose import MAX_SENTENCE_CHARS, split_sentences
from mnemic.models.offline.text import words
from mnemic.models.offline.verbs import reading
from mnemic.policy.text.common_words import is_common_word
from mnemic.state.refinement import LedgerEntry

#: `Mara works`, `Mara's sister works`: who it is about, and what is said; `Mara and Ana` are two.
_SAID = r"(?P<of>['’]s)? (?P<rest>(?!and\b|or\b|&)(?P<first>[a-z]\S*)[\s\S]*)"
_HEAD = re.compile(r"(?P<head>[A-Z][\w-]+)" + _SAID)
#: What was put together before: `Mara: works at sea; plays violin.`, and a sentence that was given its day.
_LISTED = re.compile(r"(?P<head>[A-Z][\w'’ -]{0,60}): (?P<list>[^\n]+; [^\n]+)")
_STAMPED = re.compile(r"\(\d{1,2} [A-Z][a-z]+ \d{4}\)")
_FINITE = frozenset({"is", "was", "has", "had", "can", "will", "does", "did"})
_COPULA = re.compile(r"(?:is|are) (?=\w)(?!not\b|no\b|never\b)")
#: Shorter sentences say nothing without the one before.
_LEAST_CHARS = 12


@dataclass(frozen=True)
class Statement:
    """One statement of a memory."""

    entry: LedgerEntry
    #: As the memory says it.
    source: str
    #: Who it is about where it begins with that, else empty; and what it says of them.
    head: str
    body: str


class Current(NamedTuple):
    """What still holds of several memories, oldest first, and the sentences that a later one contradicts."""

    statements: list[Statement]
    outdated: list[str]


def current(entries: Sequence[LedgerEntry]) -> Current:
    """The statements of the entries, without what another one repeats, tells in more detail, or contradicts later."""
    kept: list[Statement] = []
    outdated: list[str] = []
    for entry in sorted(entries, key=lambda one: (one.valid_from, one.handle)):
        for said in _statements(entry):
            found = [_relation(said, old) for old in kept]
            if "repeats" in found:
                continue
            outdated += [old.source for old, how in zip(kept, found, strict=True) if how == "contradicts"]
            kept = [old for old, how in zip(kept, found, strict=True) if how == "differs"] + [said]
    return Current(kept, outdated)


def _relation(new: Statement, old: Statement) -> str:
    """How they stand to each other; what would lose a detail or a weighty word differs."""
    if new.source == old.source:
        return "repeats"
    if max(len(new.source), len(old.source)) > MAX_SENTENCE_CHARS:
        return "differs"
    found = relation(new.source, old.source)
    if found == "repeats":
        return found if keeps_weight(new.source, old.source) else "differs"
    if found == "details":
        return found if keeps_weight(old.source, new.source) else "differs"
    return found if found == "differs" or new.entry.valid_from > old.entry.valid_from else "differs"


@lru_cache(maxsize=2048)
def _statements(entry: LedgerEntry) -> tuple[Statement, ...]:
    """The sentences; one that points back to the one before stays with it."""
    found: list[str] = []
    for sentence in split_sentences(entry.content):
        first = words(sentence)[:1]
        if found and (not first or first[0] in DANGLING or len(sentence) < _LEAST_CHARS):
            found[-1] = f"{found[-1]} {sentence}"
        else:
            found.append(sentence)
    return tuple(statement for sentence in found for statement in _parted(entry, sentence))


def _parted(entry: LedgerEntry, sentence: str) -> list[Statement]:
    """The statements of what was put together before; else the sentence as one."""
    listed = _LISTED.fullmatch(sentence.rstrip().removesuffix("."))
    if listed is None or listed["head"] not in (entry.subject, entry.subject.partition(" ")[0]):
        return [_statement(entry, sentence)]
    head = listed["head"]
    return [Statement(entry, f"{head}: {part}.", head, part) for part in listed["list"].split("; ") if part]


def _statement(entry: LedgerEntry, sentence: str) -> Statement:
    plain = sentence.rstrip().removesuffix(".")
    for name in filter(None, (entry.subject, entry.subject.partition(" ")[0])):
        match = re.fullmatch(re.escape(name) + _SAID, plain)
        if match is not None and name[0].isupper():
            return Statement(entry, sentence, name, match["rest"])
    match = _HEAD.fullmatch(plain)
    if match is not None and not is_common_word(match["head"]) and (match["of"] or _is_finite(match["first"])):
        return Statement(entry, sentence, match["head"], match["rest"])
    return Statement(entry, sentence, "", sentence)


def _is_finite(word: str) -> bool:
    return word in _FINITE or reading(word, "third", "past") is not None


def dated(statement: Statement) -> Statement:
    """With its relative days as dates: among others, they would seem to be counted from another day."""
    body = statement.body
    if len(body) > MAX_SENTENCE_CHARS:
        return statement
    day = statement.entry.valid_from.date()
    resolved = resolve(body, day, "past" if analysed(statement.source).past else "future").text
    text = resolved if keeps_weight(body, resolved) else body
    if UNRESOLVED.search(text) and not _STAMPED.search(text):
        end = "." if text.endswith(".") else ""
        text = f"{text.removesuffix('.')} ({day_text(day)}){end}"
    return replace(statement, body=text)


def worded(statement: Statement, level: int) -> Statement:
    """In the wording of a level."""
    if level == AS_IT_IS:
        return statement
    body = tightened(statement.body, level)
    if level >= TELEGRAPHIC and statement.head:
        body = _COPULA.sub("", body, count=1) if _COPULA.match(body) else body
    return replace(statement, body=body)
