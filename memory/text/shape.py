"""Clean, measure, clip and cut texts, and put date and subject in front of a memory.

The database computes the same tokens from the number of characters.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from mnemic.memory.text.words import pattern, sentence_ends
from mnemic.state.errors import InvalidInputError
from mnemic.state.times import long_date

Item = TypeVar("Item")

#: Maximum size of the text of a memory, in bytes of UTF-8.
MAX_TEXT_BYTES: Final = 8192
#: Estimate for English text. It is more important that it is the same everywhere than that it is exact.
CHARS_PER_TOKEN: Final = 4
#: Longer questions add nothing to a search and cost the embedder's time.
MAX_QUESTION_CHARS: Final = 2000
#: Characters of a question that are read: cleaning them takes 0.1 ms.
_READ_CHARS: Final = 4 * MAX_QUESTION_CHARS

#: Vertical tab, form feed, NEL and the Unicode separators part lines as well: removing them would join words.
_LINE_END = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
#: Controls (Cc) but newline and tab; lone surrogates, which UTF-8 cannot carry, and FFFE and FFFF, which XML cannot;
#: format characters (Cf), among them the bidirectional controls and invisible tags that can hide an order in a harmless
#: line. ZWNJ and ZWJ (200C, 200D) stay: Persian and Indic spelling and joined emoji need them.
_UNWANTED = pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
_JOINERS = "\u200c\u200d"
#: As in Unicode's Stream-Safe Text Format (UAX #15): no language stacks more on one letter, and the time to normalise
#: grows with the square of a stack's height (32,000 marks take half a second).
_MAX_MARKS: Final = 30
#: The blocks with marks in them; most texts have none, and need no check of each mark, which takes a microsecond.
_MAYBE_STACK = re.compile(
    "[\u0300-\u1dff\u20d0-\u20ff\u2c00-\u2dff\u302a-\u309a\ua600-\uabff\ufb1e\ufe20-\ufe2f\U00010000-\U0001efff]"
    f"{{{_MAX_MARKS + 1},}}"
)
_RECALLED_TAG = re.compile(r"<(/?)MemoryContext(?![\w.-])[^<>]*>?", re.IGNORECASE)

#: Maximum length of a piece, in characters.
MAX_PIECE_CHARS: Final = 1000
#: A break that leaves a shorter piece is skipped for a finer one.
_MIN_PIECE_CHARS: Final = 333


def clean_text(text: str) -> str:
    """Return a text in NFC with newlines as line ends, without unwanted characters and outer white space. Idempotent.

    A row of more than 30 combining marks is cut to 30.
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    flat = _lower_stacks(visible(text))
    # again afterwards: some marks become two
    return _lower_stacks(unicodedata.normalize("NFC", flat)).strip()


def whole_characters(text: str) -> str:
    """Replace each half character, which no request and no row can carry, with a question mark."""
    return str.encode(text, errors="replace").decode()  # not the method of a subclass


def visible(piece: str) -> str:
    """Return a piece of a longer text without unwanted characters, with its white space."""
    return _UNWANTED().sub("", _LINE_END.sub("\n", piece))


def _lower_stacks(text: str) -> str:
    return _MAYBE_STACK.sub(_lower_stack, text)


def _lower_stack(run: re.Match[str]) -> str:
    """Return a run of characters without the marks of a row above the maximum."""
    lowered: list[str] = []
    marks = 0
    for char in run.group():
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MAX_MARKS:
            lowered.append(char)
    return "".join(lowered)


def is_blank(text: str) -> bool:
    """Return whether a cleaned text has no visible character."""
    return all(char.isspace() or char in _JOINERS for char in text)


def require_text(text: str, *, what: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return a text cleaned, or raise.

    Args:
        text: Text of a caller.
        what: Name of the text in the error message, which never quotes it.
        max_bytes: Maximum length in UTF-8.

    Raises:
        InvalidInputError: if nothing visible is left, or it is too long.
    """
    cleaned = clean_text(text)
    if is_blank(cleaned):
        raise InvalidInputError(f"{what} is empty; give some text")
    size = len(cleaned.encode())
    if size > max_bytes:
        raise InvalidInputError(f"{what} has {size} bytes, at most {max_bytes} are allowed; shorten or split it")
    return cleaned


def clean_question(text: str) -> str:
    """Return the cleaned beginning of a question; empty if it has no visible character."""
    cleaned = clip_text(clean_text(text[:_READ_CHARS]), MAX_QUESTION_CHARS)
    if is_blank(cleaned):
        return ""
    return cleaned


def clip_text(text: str, max_chars: int) -> str:
    """Return a text that fits as it is, or its beginning with an ellipsis, at a word end if one is near."""
    if len(text) <= max_chars:
        return text
    head = text[: max_chars - 1]
    space = head.rfind(" ")
    # a word end in the last fifth costs little; farther back, cutting the word loses less
    if not text[max_chars - 1].isspace() and space >= max_chars * 4 // 5:
        head = head[:space]
    return head.rstrip() + "…"


def strip_recalled(text: str) -> str:
    """Return a text without outer white space and recalled memories, so that no memory is formed from itself.

    Every `<MemoryContext ...>...</MemoryContext>` goes, nested ones included; an unclosed one goes to the end.
    """
    outside: list[str] = []
    depth = 0
    position = 0
    for tag in _RECALLED_TAG.finditer(text):
        if depth == 0:
            outside.append(text[position : tag.start()])
        if tag.group(1):
            depth = max(0, depth - 1)
        elif not tag.group().endswith("/>"):
            depth += 1
        position = tag.end()
    if depth == 0:
        outside.append(text[position:])
    # a blank in the gap, so that the text around a block cannot become a tag itself
    return " ".join(outside).strip()


def count_tokens(text: str) -> int:
    """Return the estimated tokens of a text: its characters divided by four, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def fit(items: Sequence[Item], *, tokens: Callable[[Item], int], budget: int) -> list[Item]:
    """Return the items that fit, in rank order; an item that is too long is skipped, and smaller ones may follow."""
    chosen: list[Item] = []
    left = budget
    for item in items:
        size = tokens(item)
        if size <= left:
            chosen.append(item)
            left -= size
    return chosen


def search_text(dated: datetime, subject: str, content: str) -> str:
    """Return `[8 May 2026] Subject: content`, the indexed form: questions name dates and subjects too.

    The subject comes first even if the content begins with it; that measures better.
    """
    if not subject:
        return f"[{long_date(dated)}] {content}"
    return f"[{long_date(dated)}] {subject}: {content}"


def pieces(text: str) -> list[str]:
    """Cut a text into pieces of at most 1,000 characters, at paragraphs, else sentences, else words.

    No piece is empty, and together they hold every word; only a word longer than a piece is cut itself.
    """
    parts: list[str] = []
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        window = text[start : start + MAX_PIECE_CHARS + 1]
        length = len(window)
        if length > MAX_PIECE_CHARS:
            length = _cut(window)
        parts.append(text[start : start + length].rstrip())
        start += length
    return parts


def _cut(window: str) -> int:
    """Return the end of a piece in a window with one character more than a piece may have."""
    paragraph = window.rfind("\n\n")
    if paragraph >= _MIN_PIECE_CHARS:
        return paragraph
    for end in reversed(sentence_ends(window)):
        if _MIN_PIECE_CHARS <= end <= MAX_PIECE_CHARS:
            return end
    for place in reversed(range(len(window))):
        if window[place].isspace():
            return place
    return MAX_PIECE_CHARS
