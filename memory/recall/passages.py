"""The passage of a long text that fits a question."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from mnemic.memory.text.questions import folded
from mnemic.memory.text.shape import clip_text, pieces
from mnemic.memory.text.words import stem

ELLIPSIS: Final = "…"
_WORD = re.compile(r"\w+")
_SENTENCE_BREAK = re.compile(r"[.!?…]\s+|[。！？\n]")
#: Maximum distance between the beginning of an excerpt and its first matching word, in characters.
_LEAD_CHARS: Final = 120
#: Minimum gain in weight that moves a window: sums of floats differ in their last digits.
_MIN_GAIN: Final = 1e-9


def excerpt(text: str, piece: int, question: str, max_chars: int) -> str:
    """Return the part of a text that fits a question, with an ellipsis at each cut.

    Args:
        text: Whole message.
        piece: Number of the piece that fits best, as `pieces` counts them.
        question: Question with the words to find in the piece; without any of them the whole piece is returned.
        max_chars: Maximum length of a part with such words, in characters.
    """
    parts = pieces(text)
    number = min(piece, len(parts) - 1)
    part = parts[number]
    start, end = _window(part, question, max_chars - 2)
    before = number > 0 or start > 0
    after = number + 1 < len(parts) or end < len(part)
    return f"{ELLIPSIS * before}{part[start:end].strip()}{ELLIPSIS * after}"


def shortened(text: str, question: str, max_chars: int) -> str:
    """Return a text or an excerpt within so many characters, around the words of a question."""
    if len(text) <= max_chars:
        return text
    start, end = _window(text, question, max_chars - 2)
    part = text[start:end].strip()
    return clip_text(f"{ELLIPSIS * (start > 0)}{part}{ELLIPSIS * (end < len(text))}", max_chars)


def _window(text: str, question: str, max_chars: int) -> tuple[int, int]:
    """Return start and end of the window with the most and rarest words of the question; the whole text without one."""
    matches = _matches(text, question)
    if len(text) <= max_chars or not matches:
        return 0, len(text)
    best_start = _densest(matches, max_chars * 2 // 3)
    start = _beginning(text, min(best_start, len(text) - max_chars + _LEAD_CHARS), max_chars)
    end = min(len(text), start + max_chars)
    if end < len(text) and not text[end].isspace():
        end = max(text.rfind(" ", start + max_chars * 4 // 5, end), 0) or end
    return start, end


def _densest(matches: Sequence[tuple[int, int, str]], max_chars: int) -> int:
    """Return the start of the window with the most and rarest words; each word counts once."""
    counts = Counter(word for _, _, word in matches)
    inside: Counter[str] = Counter()
    best_start, best_weight = matches[0][0], 0.0
    weight, following = 0.0, 0
    for first, _, leaving in matches:
        while following < len(matches) and matches[following][1] - first <= max_chars:
            word = matches[following][2]
            inside[word] += 1
            if inside[word] == 1:
                weight += 1 / counts[word]
            following += 1
        if weight > best_weight + _MIN_GAIN:
            best_start, best_weight = first, weight
        inside[leaving] -= 1
        if inside[leaving] == 0:
            weight -= 1 / counts[leaving]
    return best_start


def _matches(text: str, question: str) -> list[tuple[int, int, str]]:
    """Return start, end and stem of each word of the text that the question has."""
    wanted = {stem(word) for word in folded(question)}
    matches: list[tuple[int, int, str]] = []
    for match in _WORD.finditer(text):
        for word in folded(match.group()):
            if stem(word) in wanted:
                matches.append((match.start(), match.end(), stem(word)))
    return matches


def _beginning(text: str, place: int, max_chars: int) -> int:
    """Return the start of the sentence at a place, or of a word if the sentence began long before."""
    lead = min(_LEAD_CHARS, max_chars // 3)
    floor = max(0, place - lead)
    head = text[floor:place]
    last_break = 0
    for match in _SENTENCE_BREAK.finditer(head):
        last_break = match.end()
    if last_break:
        return floor + last_break
    if floor == 0:
        return 0
    space = head.find(" ")
    if space < 0:
        return place
    return floor + space + 1
