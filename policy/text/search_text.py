"""What is indexed and embedded of an item."""

from datetime import datetime

from mnemic.policy.text.dates_and_numbers import written_date
from mnemic.policy.text.words import sentence_ends
from mnemic.state.errors import InvalidInputError

#: A break that leaves a piece shorter than this share of the limit is passed over for a finer one.
_MIN_FILL = 1 / 3


def search_text(dated: datetime, subject: str, content: str) -> str:
    """`[8 May 2026] Subject: content`: the bare sentence is never indexed, since date and subject are asked for.

    The subject stands in front even where the content begins with it; that measures better.
    """
    prefix = f"[{written_date(dated.day, dated.month, dated.year)}]"
    return f"{prefix} {subject}: {content}" if subject else f"{prefix} {content}"


def pieces(text: str, max_chars: int = 1000) -> list[str]:
    """The text in pieces of at most `max_chars` characters, cut at paragraphs, else sentences, else words.

    No piece is empty, and together they hold every word; only a word longer than a piece is cut itself.

    Raises:
        InvalidInputError: `max_chars` is below 1.
    """
    if max_chars < 1:
        raise InvalidInputError(f"max_chars is {max_chars}, but a piece has at least 1 character")
    found: list[str] = []
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        window = text[start : start + max_chars + 1]
        length = len(window) if len(window) <= max_chars else _cut(window, max_chars)
        found.append(text[start : start + length].rstrip())
        start += length
    return found


def _cut(window: str, max_chars: int) -> int:
    """Where to end a piece; the window holds one character more than it may have."""
    least = max(1, int(max_chars * _MIN_FILL))
    paragraph = window.rfind("\n\n")
    if paragraph >= least:
        return paragraph
    ends = [end for end in sentence_ends(window) if least <= end <= max_chars]
    if ends:
        return ends[-1]
    blanks = [place for place, char in enumerate(window) if char.isspace() and place > 0]
    return blanks[-1] if blanks else max_chars
