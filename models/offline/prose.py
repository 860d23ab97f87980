"""A message cut into the sentences its author wrote: no code, quotes, logs, pasted documents."""

import re

from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.text import fold
from mnemic.policy.formation.sharing import is_pasted

#: Longer sentences say too much at once to be rewritten by rules; the bound also keeps every later pattern cheap.
MAX_SENTENCE_CHARS = 320
#: More lines than a person types in one go, without an empty line between them: a pasted document.
_MAX_TYPED_LINES = 5
_MAX_PARAGRAPH_CHARS = 1500
#: A paragraph after a line such as "here is the mail:" is somebody else's text.
_INTRODUCES = pattern("<PROSE_INTRODUCES>", ignore_case=True)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_NOT_PROSE = pattern("<PROSE_NOT_PROSE>", ignore_case=True)
_LETTER = pattern("<PROSE_LETTER>", ignore_case=True)
_ABBREVIATION = pattern("<PROSE_ABBREVIATION>", ignore_case=True)
_BREAK = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+")


def _typed_paragraphs(content: str) -> list[list[str]]:
    """The paragraphs, each as its lines, that look typed rather than pasted."""
    paragraphs: list[list[str]] = [[]]
    fenced = False
    for line in content.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            line = ""
        elif fenced:
            continue
        elif _LETTER.match(line):
            break
        if line.strip():
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return paragraphs


def sentences(content: str) -> list[str]:
    """The sentences of a message in its author's own words, each at most `MAX_SENTENCE_CHARS` long."""
    if is_pasted(content):
        return []
    found: list[str] = []
    for lines in _typed_paragraphs(fold(content)):
        introduced = next((i for i, line in enumerate(lines) if _INTRODUCES.search(line[-120:])), None)
        own = lines if introduced is None else lines[:introduced]
        if len(own) <= _MAX_TYPED_LINES and sum(map(len, own)) <= _MAX_PARAGRAPH_CHARS:
            for line in own:
                if not _NOT_PROSE.match(line[:200]):
                    found.extend(split_sentences(line))
        if introduced is not None:
            break
    return [sentence for sentence in found if len(sentence) <= MAX_SENTENCE_CHARS]


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, also where a line ends; `Dr. Lind` stays together."""
    found: list[str] = []
    for line in text.splitlines():
        held = ""
        for part in _BREAK.split(line.strip()):
            held = f"{held} {part}".strip()
            if not _ABBREVIATION.search(held[-12:]):
                found.append(held)
                held = ""
        found.append(held)
    return [sentence for sentence in found if sentence]
