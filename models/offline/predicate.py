"""What a predicate says: its main verb, how it stands in time, and its form in the third person."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from mnemic.models.offline.pieces import words
from mnemic.models.offline.verbs import SAME_PAST, reading, third_person

Aspect = Literal[
    "present", "past", "progressive", "past progressive", "perfect", "perfect progressive", "future", "can"
]
ASPECTS: frozenset[Aspect] = frozenset(get_args(Aspect))

_ADVERBS = words("ADVERB")
#: They say nothing that lasts.
_DROPPED_ADVERBS = words("DROPPED_ADVERB")
_AUXILIARIES = {
    "am": "is",
    "is": "is",
    "are": "is",
    "was": "was",
    "were": "was",
    "have": "has",
    "has": "has",
    "had": "had",
    "do": "does",
    "does": "does",
    "did": "did",
    "will": "will",
    "can": "can",
}
_PLURAL = {"is": "are", "was": "were", "has": "have", "does": "do"}
_NEGATED = {"won't": "will", "can't": "can"}


@dataclass(frozen=True)
class Predicate:
    """One parsed predicate."""

    lemma: str
    aspect: Aspect
    negated: bool
    #: `usually`, `never`: adverbs that stand before the verb and belong to the statement.
    adverbs: tuple[str, ...]
    #: The verb group in the third person: `has been working`.
    verb: str
    #: Everything behind the verb.
    rest: str

    @property
    def text(self) -> str:
        """Verb group and adverbs in order: `is usually`, `usually works`, `has always wanted`."""
        first, *others = self.verb.split()
        if self.negated and "still" in self.adverbs:
            return " ".join(["still", first, *(adverb for adverb in self.adverbs if adverb != "still"), *others])
        if others or self.lemma == "be":
            return " ".join([first, *self.adverbs, *others])
        return " ".join([*self.adverbs, first])

    @property
    def denies(self) -> bool:
        """Whether the statement is a negative one."""
        return self.negated or bool({"never", "no longer"} & set(self.adverbs))


class _Reader:
    """Reads words from the front."""

    def __init__(self, text: str) -> None:
        self.words = re.sub(r"\bno longer\b", "no-longer", text).split()
        self.at = 0
        self.adverbs: list[str] = []

    def peek(self) -> str:
        return self.words[self.at].rstrip(",").lower() if self.at < len(self.words) else ""

    def take(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def skip_adverbs(self) -> None:
        while self.peek() in _ADVERBS:
            word = self.take().rstrip(",").lower()
            if word not in _DROPPED_ADVERBS:
                self.adverbs.append(word.replace("-", " "))

    @property
    def rest(self) -> str:
        return " ".join(self.words[self.at :])


def parse(text: str, *, plural: bool = False) -> Predicate | None:
    """The predicate, its verb fit for a third-person subject; None where no known verb leads the text."""
    reader = _Reader(text)
    reader.skip_adverbs()
    word = reader.peek()
    negated = word.endswith("n't")
    auxiliary = _NEGATED.get(word, word.removesuffix("n't"))
    if auxiliary in _AUXILIARIES and (word != "do" or len(reader.words) > 1):
        found = _with_auxiliary(reader, auxiliary, negated, plural)
        if found is not None or auxiliary not in ("have", "has", "had", "do", "does", "did"):
            return found
        reader.at, word, negated = 0, "", False
        reader.adverbs.clear()
        reader.skip_adverbs()
        word = reader.peek()
    return None if negated else _simple(reader, word, plural)


def _simple(reader: _Reader, word: str, plural: bool) -> Predicate | None:
    known = reading(word, "past") if word in ("quit", "beat") else reading(word, "base", "third", "past")
    if known is None or word in SAME_PAST:
        return None
    reader.take()
    past = known.form == "past"
    verb = word if past else (known.lemma if plural else third_person(known.lemma))
    return Predicate(known.lemma, "past" if past else "present", False, tuple(reader.adverbs), verb, reader.rest)


def _with_auxiliary(reader: _Reader, auxiliary: str, negated: bool, plural: bool) -> Predicate | None:
    reader.take()
    singular = _AUXILIARIES[auxiliary]
    head = _PLURAL.get(singular, singular) if plural else singular
    if reader.peek() == "not":
        reader.take()
        negated = True
    if negated:
        head = {"can": "can't", "will": "won't"}.get(head, f"{head}n't")
    reader.skip_adverbs()
    reader_for = {"is": _being, "was": _being, "has": _having, "had": _having, "will": _modal, "can": _modal}
    return reader_for.get(singular, _modal)(reader, head, singular, negated)


def _made(reader: _Reader, lemma: str, aspect: Aspect, negated: bool, verb: str) -> Predicate:
    return Predicate(lemma, aspect, negated, tuple(reader.adverbs), verb, reader.rest)


def _being(reader: _Reader, head: str, singular: str, negated: bool) -> Predicate | None:
    word = reader.peek()
    past = singular == "was"
    if word == "going" and reader.words[reader.at + 1 : reader.at + 2] == ["to"]:
        base = reading(" ".join(reader.words[reader.at + 2 : reader.at + 3]), "base")
        if base is not None:
            reader.at += 3
            return None if past else _made(reader, base.lemma, "future", negated, f"{head} going to {base.lemma}")
    known = reading(word, "ing")
    if known is None:
        return _made(reader, "be", "past" if past else "present", negated, head)
    reader.take()
    return _made(reader, known.lemma, "past progressive" if past else "progressive", negated, f"{head} {word}")


def _having(reader: _Reader, head: str, singular: str, negated: bool) -> Predicate | None:
    word = reader.peek()
    if word == "been":
        reader.take()
        reader.skip_adverbs()
        following = reader.peek()
        known = reading(following, "ing")
        if known is None:
            return _made(reader, "be", "perfect", negated, f"{head} been")
        reader.take()
        return _made(reader, known.lemma, "perfect progressive", negated, f"{head} been {following}")
    known = reading(word, "participle")
    if known is None:
        return None
    reader.take()
    return _made(reader, known.lemma, "perfect", negated, f"{head} {word}")


def _modal(reader: _Reader, head: str, singular: str, negated: bool) -> Predicate | None:
    known = reading(reader.peek(), "base")
    if known is None:
        return None
    reader.take()
    if singular in ("does", "did") and not negated:  # emphasis: `I do love it`
        return None if singular == "did" else _made(reader, known.lemma, "present", negated, third_person(known.lemma))
    aspects: dict[str, Aspect] = {"will": "future", "can": "can", "does": "present", "did": "past"}
    return _made(reader, known.lemma, aspects[singular], negated, f"{head} {known.lemma}")
