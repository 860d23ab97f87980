"""Statements put into one text: by subject, what is said of one subject behind its name, once."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from mnemic.models.offline.compression import weighty_words
from mnemic.models.offline.refine_statements import Statement
from mnemic.models.offline.verbs import reading

#: So many words at the start of a statement may be said once for several; these not alone: `has left`, `has a cat`.
_LONGEST_LEAD = 3
_NO_LEAD_ALONE = frozenset({"has", "had", "is", "was", "does", "did"})


def merged(statements: Sequence[Statement], *, shared: bool) -> str:
    """One text that says all of them; `shared`: what several begin with is said once."""
    by_head: dict[str, list[str]] = defaultdict(list)
    alone: list[str] = []
    for statement in statements:
        if statement.head:
            by_head[statement.head].append(statement.body)
        else:
            alone.append(_ended(statement.body.rstrip()))
    heads = [f"{head}: {'; '.join(_led(bodies) if shared else bodies)}." for head, bodies in by_head.items()]
    return " ".join([*heads, *alone])


def _ended(sentence: str) -> str:
    """With the full stop that a cut took away."""
    return f"{sentence}." if sentence[-1:].isalnum() else sentence


def _led(bodies: list[str]) -> list[str]:
    """`enjoys A`, `enjoys B` as `enjoys A / B`, where the first of them stands."""
    leads = _leads(bodies)
    groups: dict[str, list[str]] = defaultdict(list)
    for place, body in enumerate(bodies):
        lead = leads[place]
        groups[lead or f"\0{place}"].append(body[len(lead) :].strip() if lead and groups[lead] else body)
    return [" / ".join(group) for group in groups.values()]


def _leads(bodies: Sequence[str]) -> list[str]:
    """What each begins with that another one begins with, too, as many words as possible; empty where nothing."""
    found = [""] * len(bodies)
    for length in range(_LONGEST_LEAD, 0, -1):
        starts = [_start(body, length) if not found[place] else "" for place, body in enumerate(bodies)]
        counts = Counter(start for start in starts if start)
        found = [start if start and counts[start] > 1 else had for start, had in zip(starts, found, strict=True)]
    return found


def _start(body: str, length: int) -> str:
    """The first words where they begin with a verb and turn nothing round."""
    first = body.split(" ", length)
    if len(first) <= length or reading(first[0], "third", "past", "ing") is None:
        return ""
    if length == 1 and first[0] in _NO_LEAD_ALONE:
        return ""
    start = " ".join(first[:length])
    return "" if weighty_words(start) or not start.replace(" ", "").isalpha() else start
