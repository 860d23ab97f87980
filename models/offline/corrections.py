"""`Sorry, not Tuesday, Thursday`: what a speaker puts right in what they have just said."""

import re
from dataclasses import dataclass

from mnemic.models.offline.pieces import pattern

_SHAPES = tuple(pattern(f"<CORRECTIONS_{name}>", ignore_case=True) for name in ("NOT_BUT", "THIS_NOT", "THIS"))
#: What may stand for what when only the right value is said.
_KINDS = tuple(
    pattern(kind, ignore_case=True)
    for kind in (
        r"\b<DAY>\b",
        r"\b<MONTH>\b",
        r"\b\d{1,2}(?::\d\d)? ?(?:am|pm)\b",
        r"\b\d{1,2}(?:st|nd|rd|th)\b",
        r"\b\d+\b",
    )
)


#: `Actually, ...`: a whole statement in the place of the one before.
_INSTEAD = pattern("<CORRECTIONS_INSTEAD>", ignore_case=True)


@dataclass(frozen=True)
class Correction:
    """The right value, and the wrong one where the speaker named it."""

    right: str
    wrong: str | None

    def applied(self, statement: str) -> str | None:
        """The statement put right, or None where it is not plain what to replace."""
        if self.wrong is not None:
            found = list(re.finditer(rf"(?<!\w){re.escape(self.wrong)}(?!\w)", statement, re.IGNORECASE))
        else:
            kind = next((kind for kind in _KINDS if kind.fullmatch(self.right)), None)
            found = list(kind.finditer(statement)) if kind else []
        if len(found) != 1 or found[0][0].lower() == self.right.lower():
            return None
        return statement[: found[0].start()] + self.right + statement[found[0].end() :]


def puts_instead(sentence: str) -> bool:
    """Whether what the sentence states takes the place of what its speaker has just said of the same."""
    return _INSTEAD.match(sentence.strip()) is not None


def correction(sentence: str) -> Correction | None:
    """The correction that a sentence consists of, or None."""
    if len(sentence) > 100 or "?" in sentence:  # a correction is short
        return None
    for shape in _SHAPES:
        match = shape.fullmatch(sentence.strip())
        if match is not None:
            return Correction(right=match["right"].strip(), wrong=match.groupdict().get("wrong"))
    return None
