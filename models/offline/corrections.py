"""`Sorry, not Tuesday, Thursday`: what a speaker puts right in what they have just said."""

import re
from dataclasses import dataclass

from mnemic.models.offline.lexicon import MONTHS, WEEKDAYS

_SORRY = r"(?:oh|sorry|no|wait|oops|ah|actually|correction|my mistake|my bad|hm+|I mean|I meant|scratch that|ehm?|pardon)"
_IT = r"(?:(?:it'?s|it is|it was|that'?s|that is|that should be|it should be|should be|make that|make it|I meant|I mean|I meant to say) )?"
_VALUE = r"(?:on |at |in |to )?(?P<{}>[\w':.-]+(?: [\w':.-]+){{0,3}}?)"
_SHAPES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:{_SORRY}[,.!: -]+)*{_IT}not {_VALUE.format('wrong')}(?:,| but|;| -+)+ (?:but )?{_IT}{_VALUE.format('right')}[.!]*",
        rf"(?:{_SORRY}[,.!: -]+)*{_IT}{_VALUE.format('right')},? not {_VALUE.format('wrong')}[.!]*",
        rf"(?:{_SORRY}[,.!: -]+)+{_IT}{_VALUE.format('right')}[.!]*",
        rf"(?:I meant|I meant to say|make that) {_VALUE.format('right')}[.!]*",
    )
)
#: What may stand for what when only the right value is said.
_KINDS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:{'|'.join(WEEKDAYS)})\b",
        rf"\b(?:{'|'.join(MONTHS)})\b",
        r"\b\d{1,2}(?::\d\d)? ?(?:am|pm)\b",
        r"\b\d{1,2}(?:st|nd|rd|th)\b",
        r"\b\d+\b",
    )
)


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


def correction(sentence: str) -> Correction | None:
    """The correction that a sentence consists of, or None."""
    if len(sentence) > 100 or "?" in sentence:  # a correction is short
        return None
    for shape in _SHAPES:
        match = shape.fullmatch(sentence.strip())
        if match is not None:
            return Correction(right=match["right"].strip(), wrong=match.groupdict().get("wrong"))
    return None
