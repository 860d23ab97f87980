"""`The 19th`, said in a talk of September, is a day of September."""

import re
from datetime import date

from mnemic.models.offline.lexicon import MONTHS
from mnemic.models.offline.pieces import pattern

_BARE_DAY = pattern(r"\bthe (?P<day>\d{1,2}(?:st|nd|rd|th))\b(?! (?:of )?<MONTH>)(?! \w+(?:day|time)\b)")
_DAY_OF_MONTH = pattern(r"\b\d{1,2}(?:st|nd|rd|th)?(?: of)? (?P<month><MONTH>)\b")
#: What was is told in its own time.
_PAST = re.compile(r"\b(?:was|were|had|did|went|met|got|came|took|\w+ed)\b")


def with_month(statement: str, before: str, today: date) -> str:
    """The statement with the month spoken of last, where that one lies ahead, at a day that has none."""
    spoken = [match["month"] for match in _DAY_OF_MONTH.finditer(before)]
    if not spoken or MONTHS.index(spoken[-1]) + 1 <= today.month or _PAST.search(statement):
        return statement
    return _BARE_DAY.sub(rf"the \g<day> of {spoken[-1]}", statement)
