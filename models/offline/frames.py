"""What a stored sentence says, in comparable parts: subject, polarity, words, and a single-valued attribute."""

import re
from dataclasses import dataclass
from functools import lru_cache

from mnemic.models.offline.lexicon import MONTHS, WEEKDAYS
from mnemic.models.offline.pieces import entries, pattern
from mnemic.models.offline.pieces import words as words_of
from mnemic.models.offline.regards import plain
from mnemic.models.offline.restated import restated
from mnemic.models.offline.text import content_stems, fold, stem, words
from mnemic.models.offline.verbs import Form, reading

#: Attributes that have one value at a time, and how a sentence gives it.
_SINGLE_VALUED = tuple(
    (name, pattern(f"(?P<who>.{{1,80}}?) {''.join(shape)}$")) for name, *shape in entries("attributes.txt")
)
#: `Harbor's deadline is ...`: the words before the verb name the attribute.
_ATTRIBUTE = pattern("<FRAMES_ATTRIBUTE>")
_MANY_VALUED = words_of("MANY_VALUED")
_DATE_VALUED = pattern(r"(?:.* )?(?:<PROJECT>|deadline|birthday|anniversary|wedding)$")
_TIME = pattern("<FRAMES_TIME>")
_DETAIL = pattern("<FRAMES_DETAIL>")
_TIME_WORDS = re.compile(r"\b(?:on|at|in|by|every|until|the (?:morning|afternoon|evening|week|weekend) of)\b")
_ENDING = pattern("<FRAMES_ENDING>")
_ANY_MORE = re.compile(r"\bany ?more\b")
_DENIAL = re.compile(r"\b\w+n't\b|\b(?:not|never|no|without|neither|can't|cannot)\b")
_TASTES = {"lik": 1, "dislik": -1}
#: What somebody uses or goes to; elsewhere a number behind a name tells one thing from another: `Room 101`.
_VERSION = re.compile(
    r"\b(?:is|are|was|be|use|uses|runs?|run on|runs on|to) ([A-Z][A-Za-z+#]{2,}) (\d+(?:\.\d+)*)\b(?! ?[ap]m|:)"
)
_DATED_WORDS = frozenset({*MONTHS, *WEEKDAYS})
_COUNTED = pattern(
    r" (?:has|keeps|owns|have|keep|own) (?P<number>\d+|<NUMBER_WORD>) (?P<noun>[a-z]+s)"
    r"(?=$|,| (?:on|in|at|now|and|since|for)\b)"
)


@dataclass(frozen=True)
class Said:
    """One sentence in comparable parts."""

    subject: frozenset[str]
    #: Stems of the words that carry meaning, in order.
    order: tuple[str, ...]
    denies: bool
    #: It says that something is over.
    ends: bool
    #: It tells what happened rather than what is or will be.
    past: bool
    #: The single-valued attribute it names, with its value; empty where it names none.
    attribute: str
    value: frozenset[str]
    #: Its stems without times, and the times.
    timeless: frozenset[str]
    times: frozenset[str]
    #: Its names, and its numbers with what they count.
    details: frozenset[str]
    #: Named things in use with their version: `Postgres 16`.
    versions: tuple[tuple[str, str], ...] = ()
    #: What somebody has, keeps or owns, counted: `two hives`.
    counted: tuple[str, str] | None = None

    @property
    def stems(self) -> frozenset[str]:
        """The stems, whatever their order."""
        return frozenset(self.order)

    @property
    def taste(self) -> int:
        """1 for a liking, -1 for a dislike, 0 for neither; a denial turns it round."""
        found = next((sign for word, sign in _TASTES.items() if word in self.order), 0)
        return -found if self.denies else found


@lru_cache(maxsize=2048)
def analysed(sentence: str) -> Said:
    """The sentence in comparable parts."""
    text = restated(plain(fold(sentence).strip()).rstrip("."))
    text = text.replace(" can't stand ", " dislikes ").replace(" can't bear ", " dislikes ")
    subject, past = _subject(text)
    denies = bool(_DENIAL.search(text))
    ends = bool(_ENDING.search(text) or (denies and _ANY_MORE.search(text)))
    attribute, value = ("", frozenset[str]()) if ends or denies else _attribute(text)
    kept = content_stems(text)
    return Said(
        subject=subject,
        order=tuple(found for word in words(text) if (found := stem(word)) in kept),
        denies=denies,
        ends=ends,
        past=past,
        attribute=attribute,
        value=value,
        timeless=content_stems(_TIME_WORDS.sub(" ", _TIME.sub(" ", text))),
        times=frozenset(match[0].lower() for match in _TIME.finditer(text)),
        details=frozenset(match[0].lower() for match in _DETAIL.finditer(_TIME.sub(";", text))),
        versions=tuple((match[1], match[2]) for match in _VERSION.finditer(text) if match[1] not in _DATED_WORDS),
        counted=_counted(text),
    )


def _counted(text: str) -> tuple[str, str] | None:
    match = _COUNTED.search(text)
    return (stem(match["noun"].lower()), match["number"].lower()) if match else None


def _subject(text: str) -> tuple[frozenset[str], bool]:
    """The stems of what stands before the first finite verb, and whether that verb is in the past."""
    found = text.split()
    finite: tuple[tuple[Form, ...], ...] = (("third", "past"), ("base",))
    for forms in finite:
        for index, word in enumerate(found[1:], start=1):
            known = reading(word.removesuffix("n't"), *forms)
            if known is not None or word.lower() in ("can't", "won't", "will", "can", "are", "were", "no", "never"):
                return content_stems(" ".join(found[:index])), known is not None and known.form == "past"
    return content_stems(" ".join(found[:1])), False


def _attribute(text: str) -> tuple[str, frozenset[str]]:
    for name, shape in _SINGLE_VALUED:
        match = shape.match(text)
        if match is not None:
            detail = " ".join(sorted(content_stems(match.groupdict().get("detail") or "")))
            return f"{name} {detail}".strip(), content_stems(match["value"])
    match = _ATTRIBUTE.match(text)
    if match is None or match["head"].lower() in _MANY_VALUED:
        return "", frozenset()
    if _DATE_VALUED.match(match["head"]) and not _TIME.match(text, match.start("value")):
        return "", frozenset()
    return " ".join(sorted(content_stems(match["who"]))), content_stems(match["value"])
