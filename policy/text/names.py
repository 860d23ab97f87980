"""How a speaker is called in memories when the host gives no more than an id."""

import re

_PLAIN_ID = re.compile(r"[^\W\d_]+(?:[._-][^\W\d_]+)*")
_PARTS = re.compile(r"[._-]")
#: A uuid, or a run of hexadecimal digits as databases and hashes make them.
_OPAQUE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]*\d)[0-9a-f]{16,}", re.IGNORECASE)
#: From eight characters on, half of them digits, an id is made for machines; `ana2` and `marit1987` are not.
_OPAQUE_MIN_CHARS = 8
_OPAQUE_DIGIT_SHARE = 0.5
_SHOWN_CHARS = 8


def display_name(author: str) -> str:
    """`Mara` for `mara`, `Mara Lopes` for `mara.lopes`, `User 3f2a9c1e` for an opaque id; all else as it is."""
    if author.islower() and _PLAIN_ID.fullmatch(author):
        return " ".join(part[0].upper() + part[1:] for part in _PARTS.split(author))
    if _is_opaque(author):
        return f"User {author[:_SHOWN_CHARS]}"
    return author


def _is_opaque(author: str) -> bool:
    if _OPAQUE.fullmatch(author):
        return True
    digits = sum(char.isdigit() for char in author)
    return len(author) >= _OPAQUE_MIN_CHARS and digits >= _OPAQUE_DIGIT_SHARE * len(author) and " " not in author
