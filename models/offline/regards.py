"""A fact that tells how to deal with somebody, put as a guide for plans and suggestions."""

import re

from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.statement import Statement

#: From this importance on a constraint stands in every context; below it, being found when needed is enough.
_LEAST_IMPORTANCE = 4
#: How a guide begins; what follows is the statement itself, so that nothing is invented.
_PLANS, _SUGGESTIONS = "Plans for {} have to allow for this: ", "Suggestions to {} should respect this: "
#: What a team does as a rule rather than once.
_STANDING_RULE = pattern(
    r"\b(?:<DAY>s|every|each|daily|weekly|never|always|only|at most|no more than|at the most|maximum|limit|cap)\b"
)
_GUIDE = re.compile(r"^(?:Plans for|Suggestions to) .{1,60}? (?:have to allow for|should respect) this: ")


def regard(fact: Statement, *, is_strong: bool) -> str | None:
    """The guide that a lasting constraint, a rule of a team or a strong preference is; None where the fact is none."""
    if fact.category == "constraints" and fact.importance >= _LEAST_IMPORTANCE:
        return _PLANS.format(fact.subject) + fact.content
    if fact.shared and fact.category == "projects" and _STANDING_RULE.search(fact.content):
        return _PLANS.format(fact.subject) + fact.content
    if fact.category == "preferences" and is_strong and not fact.shared:
        return _SUGGESTIONS.format(fact.subject) + fact.content
    return None


def plain(content: str) -> str:
    """The statement inside a guide; any other sentence as it is."""
    return _GUIDE.sub("", content)
