"""Which lines of a memory answer what was asked, and which one is meant where something is to be forgotten."""

import re
from collections.abc import Sequence

from mnemic.models.offline.frames import analysed
from mnemic.models.offline.text import content_stems, stem
from mnemic.policy.text.common_words import FUNCTION_WORDS
from mnemic.policy.text.details import proper_nouns
from mnemic.policy.text.words import folded_words, sentences

QUESTION = re.compile(
    r"\?\s*$|^\s*(?:what|who|whom|whose|where|when|why|how|which|do|does|did|is|are|was|were|can|could|will|would|should"
    r"|tell me|remind me)\b",
    re.IGNORECASE,
)
FORGET = re.compile(
    r"^\s*(?:please\s+)?forget\b(?:\s+(?:(?:all|everything|what)\s+(?:I|you)\s+(?:know|said|told\s+you)\s+)?"
    r"(?:that|about))?\s*(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
#: What the offline chat says where it tells nothing.
HEARD = "I see."
UNKNOWN = "I do not know."
NOT_KEPT = "I remember nothing like that."
_NUMBER = re.compile(r"\d+")
_DATE = re.compile(r"^\[[^\]]*\] ")
#: A kept message, and no memory.
_SAID = re.compile(r"^(?:\[[^\]]*\] )?[^:]{1,200} said: \"?(?P<words>.*)", re.DOTALL)
_ABOUT_ME = re.compile(r"\b(?:know|remember)(?: about| of)? me\b|\bwho (?:am I|I am)\b", re.IGNORECASE)
_OWN = re.compile(r"\b(?:I|I['’]\w+)\b")
_MY = re.compile(r"\b(?:my|our)\b", re.IGNORECASE)
#: `Ana's brother ...`.
_OF_SOMEBODY = re.compile(r"^(?:\[[^\]]*\] )?(?:[^:]*: )?\S+['’]s ")
#: What one asks by, where a line says it otherwise: `moved to`, `works as`.
_ASKED_BY = {"home": ("live", "home"), "occupation": ("job", "work")}
#: Lines told at once.
_MOST = 5


def fitting(said: str, lines: Sequence[str]) -> list[str]:
    """The lines that answer best: those that share most telling words with what was said, and what adds another one.

    Where memories fit, what was said on the way to them is left out: it may have been taken back since.
    """
    lines = [line for line in dict.fromkeys(lines) if not _is_idle(line)]
    memories = [line for line in lines if not _SAID.match(line)]
    if _ABOUT_ME.search(said):  # whose memory a line is cannot be told from it: the user's people are in theirs, too
        return memories[:_MOST]
    return (_best(said, memories) or _best(said, lines))[:_MOST]


def _best(said: str, lines: Sequence[str]) -> list[str]:
    wanted, names = telling(said), telling(" ".join(name.text for name in proper_nouns(said)))
    shared = {line: wanted & _answered_by(line) for line in lines}
    if names:  # of others nothing was asked
        shared = {line: words for line, words in shared.items() if words & names}
    if _OWN.search(said) and not _MY.search(said):
        own = {line: words for line, words in shared.items() if words and not _OF_SOMEBODY.match(line)}
        shared = own or shared
    most = max(map(len, shared.values()), default=0)
    best: list[str] = []
    covered: set[str] = set()
    for line, words in sorted(shared.items(), key=lambda pair: -len(pair[1])):
        if words and (len(words) == most or words - covered):
            best.append(line)
            covered |= words
    return best


def _is_idle(line: str) -> bool:
    """Whether it is a kept message that tells nothing: a question, an order to forget, or an answer of these rules."""
    said = _SAID.match(line)
    if not said:
        return False
    words = said["words"].removesuffix('"')
    return words.startswith(("[", HEARD, UNKNOWN, NOT_KEPT)) or all(
        QUESTION.search(sentence) or FORGET.match(sentence) for sentence in sentences(words)
    )


def says_it(line: str, what: str) -> bool:
    """Whether a line says all that is to be forgotten, and of the same one; in doubt it does not."""
    said = _SAID.match(line)
    text = said["words"].removesuffix('"') if said else _DATE.sub("", line)
    wanted = content_stems(_OWN.sub("", what))
    return (
        bool(wanted)
        and wanted <= content_stems(text)
        and analysed(what).denies == analysed(text).denies
        and not (_OWN.match(what) and _OF_SOMEBODY.match(text))
        and not _is_idle(line)
    )


def _answered_by(line: str) -> set[str]:
    """The telling words of a line, and those that one asks for it by."""
    text = _DATE.sub("", line)
    asked_by = () if _SAID.match(line) else _ASKED_BY.get(analysed(text).attribute, ())
    return telling(text) | set(map(stem, asked_by))


def telling(text: str) -> set[str]:
    """The stems of the words that say what it is about, and its numbers."""
    words = {stem(word) for word in folded_words(text) if word not in FUNCTION_WORDS}
    return words.union(_NUMBER.findall(text))
