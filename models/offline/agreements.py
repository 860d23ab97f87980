"""What a team has agreed on for good: material for its reflections rather than a fact among others."""

import re

from mnemic.models.offline.pieces import pattern

_AGREEMENT = pattern("<AGREEMENTS_AGREEMENT>", ignore_case=True)
_LEAD = re.compile(r"(?:from now on|as a (?:team|group|rule)),? (?=we\b)", re.IGNORECASE)


def is_agreement(statement: str) -> bool:
    """Whether a team states a rule or an agreement of its own."""
    return _AGREEMENT.match(statement) is not None


def without_lead(statement: str) -> str:
    """The statement without `from now on` and the like before its subject."""
    return _LEAD.sub("", statement)
