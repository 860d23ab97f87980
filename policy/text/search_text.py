"""What is indexed and embedded of an item, and how its speaker is called there."""

import re
from datetime import datetime

from mnemic.policy.text.details import written_date
from mnemic.policy.text.words import sentence_ends

MAX_PIECE_CHARS = 1000
#: A break that leaves less of a piece is passed over for a finer one.
_LEAST_PIECE_CHARS = 333

_PLAIN_ID = re.compile(r"[^\W\d_]+(?:[._-][^\W\d_]+)*")
#: A uuid, or a run of hexadecimal digits as databases and hashes make them.
_OPAQUE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]*\d)[0-9a-f]{16,}", re.IGNORECASE)
#: From so many characters on, half of them digits, an id is made for machines; `ana2` and `marit1987` are not.
_OPAQUE_CHARS = 8
_SHOWN_CHARS = 8


def search_text(dated: datetime, subject: str, content: str) -> str:
    """`[8 May 2026] Subject: content`: the bare sentence is never indexed, since date and subject are asked for.

    The subject stands in front even where the content begins with it; that measures better.
    """
    prefix = f"[{written_date(dated.day, dated.month, dated.year)}]"
    return f"{prefix} {subject}: {content}" if subject else f"{prefix} {content}"


def pieces(text: str) -> list[str]:
    """The text in pieces of at most 1,000 characters, cut at paragraphs, else sentences, else words.

    No piece is empty, and together they hold every word; only a word longer than a piece is cut itself.
    """
    found: list[str] = []
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        window = text[start : start + MAX_PIECE_CHARS + 1]
        length = len(window) if len(window) <= MAX_PIECE_CHARS else _cut(window)
        found.append(text[start : start + length].rstrip())
        start += length
    return found


def _cut(window: str) -> int:
    """Where to end a piece; the window holds one character more than it may have."""
    paragraph = window.rfind("\n\n")
    if paragraph >= _LEAST_PIECE_CHARS:
        return paragraph
    ends = [end for end in sentence_ends(window) if _LEAST_PIECE_CHARS <= end <= MAX_PIECE_CHARS]
    blanks = [place for place, char in enumerate(window) if char.isspace()]
    return (ends or blanks or [MAX_PIECE_CHARS])[-1]


def display_name(author: str) -> str:
    """`Mara` for `mara`, `Mara Lopes` for `mara.lopes`, `User 3f2a9c1e` for an opaque id; all else as it is."""
    if author.islower() and _PLAIN_ID.fullmatch(author):
        return " ".join(part[0].upper() + part[1:] for part in re.split(r"[._-]", author))
    digits = sum(char.isdigit() for char in author)
    is_made = len(author) >= _OPAQUE_CHARS and 2 * digits >= len(author) and " " not in author
    return f"User {author[:_SHOWN_CHARS]}" if is_made or _OPAQUE.fullmatch(author) else author
