"""The same sentence in fewer letters: long-winded wordings shortened, then articles, then hedges left out."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from mnemic.models.offline.pieces import entries, expand
from mnemic.policy.text.common_words import is_common_word
from mnemic.policy.text.retention import missing_details
from mnemic.policy.text.words import QUOTED

#: Levels of wording: as it is; shortened with nothing lost; telegraphic; without hedges.
AS_IT_IS, SHORTENED, TELEGRAPHIC, UNHEDGED = range(4)
#: What turns a statement round, orders it or limits it.
_BINDING = (
    r"n['’]t\b|\b(?:not|no|never|none|nobody|nothing|nor|neither|without|cannot|must|should|shall|ha(?:s|ve) to|always"
    r"|only|unless|except|until|if|before|after|during|instead|rather|stop\w*|avoid\w*|refus\w+|dislik\w+|hat(?:e|es|ed)"
    r"|lack\w*|cancel\w*|quit|used to|former\w*|promis\w+|agree\w*|allerg\w+|at (?:most|least))\b"
)
#: How sure it is, and of how many it is said.
_QUALIFYING = (
    r"|\b(?:may|might|can|could|would|every|each|all|any|most|some|almost|nearly|about|around|often|sometimes)\b"
)
_WEIGHTY = re.compile(_BINDING + _QUALIFYING, re.IGNORECASE)
_BINDING_ONLY = re.compile(_BINDING, re.IGNORECASE)
_PLAIN_WORD = re.compile(r"(?<![\w'’-])[a-z]+(?:['’][a-z]+)?(?![\w-])")
#: A sentence is English where it has one of these, and at least this share of its words in lower case are common.
_ENGLISH = re.compile(r"\b(?:the|an?|and|of|to|is|has|with|for|from|his|her|their|at|by|she|he|they)\b")
_ENGLISH_SHARE = 0.4


class _Rule(NamedTuple):
    level: int
    shape: re.Pattern[str]
    instead: str


@cache
def _rules() -> tuple[_Rule, ...]:
    found = []
    for entry in entries("shorter.txt"):
        shape, _, instead = "".join(entry).partition("=>")
        found.append(_Rule(int(shape[0]), re.compile(expand(shape[1:].strip())), instead.strip()))
    return tuple(found)


def tightened(sentence: str, level: int) -> str:
    """The sentence as short as the level allows; as it is where a detail or a weighty word would be lost.

    Quotations stay as they are, and so does every sentence that is not English.
    """
    if level == AS_IT_IS or not is_english(sentence):
        return sentence
    text = "".join(piece if quoted else _reworded(piece, level) for piece, quoted in _pieces(sentence)).strip()
    return text if text and len(text) < len(sentence) and keeps_weight(sentence, text) else sentence


def keeps_weight(source: str, text: str) -> bool:
    """Whether a text keeps every detail of its source, and every negation, order and limit."""
    return weighty_words(source) <= weighty_words(text) and not missing_details([source], text)


@lru_cache(maxsize=4096)
def weighty_words(text: str) -> frozenset[str]:
    """The words of a text that turn a statement round, order or limit it, or tell how sure it is."""
    return frozenset(match[0].lower() for match in _WEIGHTY.finditer(text))


def is_binding(text: str) -> bool:
    """Whether a text negates, orders, promises or limits anything: nothing of the kind may be left out."""
    return _BINDING_ONLY.search(text) is not None


def is_english(text: str) -> bool:
    """Whether the rules of this module can be trusted with a text; in doubt not."""
    plain = _PLAIN_WORD.findall(text)
    return bool(_ENGLISH.search(text)) and sum(map(is_common_word, plain)) >= _ENGLISH_SHARE * len(plain)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is a quotation."""
    found: list[tuple[str, bool]] = []
    start = 0
    for match in QUOTED.finditer(text):
        found += [(text[start : match.start()], False), (match[0], True)]
        start = match.end()
    return [*found, (text[start:], False)]


def _reworded(text: str, level: int) -> str:
    for rule in _rules():
        if rule.level <= level:
            text = rule.shape.sub(rule.instead, text)
    return re.sub(r" +([,.;:!?])", r"\1", re.sub(r" {2,}", " ", text))
