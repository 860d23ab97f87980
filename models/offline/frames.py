"""What a stored sentence says, in comparable parts: subject, polarity, words, and a single-valued attribute."""

import re
from dataclasses import dataclass
from functools import lru_cache

from mnemic.models.offline.lexicon import MONTHS, WEEKDAYS
from mnemic.models.offline.tables import pattern
from mnemic.models.offline.text import content_stems, fold, stem, words
from mnemic.models.offline.verbs import Form, reading

_WHO = r"(?P<who>.{1,80}?)"
_OFTEN = r"(?:now |currently |still |also |recently |officially )?"
#: An attribute that has one value at a time; what it is, and how a sentence gives its value.
_SINGLE_VALUED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, pattern(rf"{_WHO} {shape}$"))
    for name, shape in (
        ("home", rf"{_OFTEN}(?:lives? in|is living in|is {_OFTEN}based in|(?:has )?(?:moved|relocated) (?:back )?(?:from .+? )?(?:to|into)) (?P<value>(?!\d|<DAY>).+)"),
        ("employer", rf"{_OFTEN}(?:works? (?:at|for)|is working (?:at|for)|started (?:working |a (?:new )?job )?(?:at|for)) (?P<value>.+)"),
        ("occupation", rf"{_OFTEN}(?:works? as|is working as|started (?:working )?as) (?P<value>.+)"),
        ("age", r"(?:is|turned|is turning) (?P<value>\d{1,3})(?: years old)?(?: on .+| in .+)?"),
        ("diet", rf"is {_OFTEN}(?:an? )?(?P<value><DIET>)"),
        ("status", rf"(?:is|got) {_OFTEN}(?P<value>married|single|engaged|divorced|widowed)(?: .+)?"),
        ("tool", rf"{_OFTEN}(?:uses?|is using|are using) (?P<value>.+?) (?P<detail>(?:for|as) .+)"),
        ("called", r"(?:is|are) (?:called|named) (?P<value>.+)"),
    )
)
#: `Harbor's deadline is ...`: the words before the verb name the attribute.
_ATTRIBUTE = pattern(
    r"(?P<who>(?:[Tt]he |.{1,60}'s )(?:[\w'-]+ ){0,3}?(?P<head><ATTRIBUTE>|<PROJECT>|favou?rite [\w -]{1,40}?)(?: (?:for|of) [\w' -]{1,40}?)?) "
    r"(?:(?:is|was|are|will be|has been|has|had been)(?: now| still)? ?)?"
    r"(?:(?:moved|slipped|set|scheduled|pushed|postponed|due|planned|fixed|changed|delayed|brought forward|shifted)(?: (?:back|up))? ?)?"
    r"(?:(?:from .+? )?(?:to|for|on|at|in|until|by) )?(?P<value>.+)$"
)
_MANY_VALUED = frozenset({"goal", "hobby", "hobbies", "lead", "meeting", "office", "project", "team", "product", "event", "client", "customer", "dream"})
_DATE_VALUED = pattern(r"(?:.* )?(?:<PROJECT>|deadline|birthday|anniversary|wedding)$")
_TIME = re.compile(
    rf"\b(?:{'|'.join(WEEKDAYS)})s?\b|\b\d{{1,2}} (?:{'|'.join(MONTHS)})(?: \d{{4}})?\b|\b(?:{'|'.join(MONTHS)})(?: \d{{4}})?\b|\b(?:19|20)\d\d\b"
    r"|\b\d{1,2}(?::\d\d)? ?(?:am|pm|a\.m\.?|p\.m\.?)?(?!\w)",
)
_TIME_WORDS = re.compile(r"\b(?:on|at|in|by|every|until|the (?:morning|afternoon|evening|week|weekend) of)\b")
_ENDING = re.compile(
    r"\b(?:no longer|stopped|has stopped|quit|has quit|gave up|has given up)\b|n't\b.*\bany ?more\b|\bnot\b.*\bany ?more\b|\bnever again\b"
)
_DENIAL = re.compile(r"\b\w+n't\b|\b(?:not|never|no|without|neither|can't|cannot)\b")
_TASTES = {"lik": 1, "dislik": -1}


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
    text = fold(sentence).strip().rstrip(".")
    text = text.replace(" can't stand ", " dislikes ").replace(" can't bear ", " dislikes ")
    subject, past = _subject(text)
    ends, denies = bool(_ENDING.search(text)), bool(_DENIAL.search(text))
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
    )


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
    if _DATE_VALUED.match(match["head"]) and not _TIME.search(match["value"]):
        return "", frozenset()
    return " ".join(sorted(content_stems(match["who"]))), content_stems(match["value"])
