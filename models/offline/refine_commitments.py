"""Which memories are commitments: what may never be changed or lost."""

import re
from collections.abc import Iterator, Sequence

from mnemic.models.offline.prose import MAX_SENTENCE_CHARS, split_sentences
from mnemic.models.offline.verbs import reading
from mnemic.policy.text.common_words import FUNCTION_WORDS, is_common_word
from mnemic.state.refinement import Budget, LedgerEntry

#: A danger to somebody's health.
_HEALTH = re.compile(
    r"(?<!not )\b(?:allergic|allerg(?:y|ies) to|anaphyla\w+|epinephrine|epipen|epilep\w+|seizures?|diabet\w+|insulin"
    r"|asthma\w*|pacemaker|hemophilia|haemophilia|suicid\w+|medication|coeliac|celiac|intoleran\w+)\b",
    re.IGNORECASE,
)
#: A promise.
_PROMISE = re.compile(
    r"\b(?:promis(?:es|ed)|agree[sd]? (?:to|that|not|never|on)|swore|vow(?:s|ed)|pledg(?:es|ed)|committed to"
    r"|gave (?:\w+ )?(?:his|her|their|its) word|word was given)\b",
    re.IGNORECASE,
)
#: An order, a law of one's own: `must`, and `always` or `never` where an action is ordered rather than told.
_MUST = re.compile(
    r"\b(?:must(?! have\b)|under no circumstances|without exception|is forbidden|are forbidden|is not allowed"
    r"|are not allowed|may not|shall not|do not (?:ever|tell|share|mention|ask|use|send))\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?:^|[.;:,]\s|\b(?:to|should|shall|will|please|wants? \w+ to)\s)(?:always|never)\s(?P<verb>\w+)", re.IGNORECASE
)


def commitments(entries: Sequence[LedgerEntry], budget: Budget) -> list[LedgerEntry]:
    """The core memories to protect, as many as fit, the gravest first: health, then promises and orders."""
    room = budget.most_protected - budget.protected
    found: list[LedgerEntry] = []
    for _, entry in sorted(_weighed(entries), key=lambda weighed: weighed[0]):
        if entry.tokens <= room:
            found.append(entry)
            room -= entry.tokens
    return found


def _weighed(entries: Sequence[LedgerEntry]) -> Iterator[tuple[tuple[int, int, int], LedgerEntry]]:
    for entry in entries:
        if entry.kind == "core" and not entry.protected and (gravity := _gravity(entry.content)):
            yield (gravity, -entry.importance, entry.handle), entry


def _gravity(text: str) -> int:
    """1 for a danger to health, 2 for a promise or an order, 0 for anything else."""
    sentences = [sentence for sentence in split_sentences(text) if len(sentence) <= MAX_SENTENCE_CHARS]
    if any(map(_HEALTH.search, sentences)):
        return 1
    return 2 if any(_PROMISE.search(said) or _MUST.search(said) or _orders(said) for said in sentences) else 0


def _orders(sentence: str) -> bool:
    return any(_is_ordered(match["verb"].lower()) for match in _ORDER.finditer(sentence))


def _is_ordered(verb: str) -> bool:
    """Whether an action is named rather than told: `never tell`, not `never told`."""
    if reading(verb, "base") is not None:
        return True
    is_told = reading(verb, "third", "past", "participle", "ing") is not None or verb.endswith(("ed", "ing", "s"))
    return not is_told and verb not in FUNCTION_WORDS and is_common_word(verb)
