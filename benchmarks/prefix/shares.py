"""What two requests have in common at their beginning."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

Request = dict[str, Any]
#: Of memory that belongs to a turn; what stands in it is escaped, so that it ends where it says.
_BEGIN, _END = "<MemoryContext>", "</MemoryContext>\n\n"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A request and the one before it."""

    kind: str
    characters: int
    #: Of the characters, those that a cache has.
    now: float
    #: The same of the messages alone: a host may have few tools.
    messages: float
    #: As `now`, had all of the memory stood in the system message.
    earlier: float


def pairs_of(turns: Sequence[Sequence[Request]]) -> Iterator[Pair]:
    """First requests of turns beside each other, and the requests within each turn.

    Args:
        turns: the requests of each turn of a thread.
    """
    for last, turn in pairwise(turns):
        kinds = ["searched" if _turn_part(request[0]) else "not searched" for request in (last, turn)]
        yield _pair(f"turn to turn: {' → '.join(kinds)}", last[0], turn[0])
    for turn in turns:
        for first, second in pairwise(turn):
            yield _pair("within a turn", first, second)


def _pair(kind: str, first: Request, second: Request) -> Pair:
    return Pair(
        kind=kind,
        characters=len(_text(second)),
        now=_share(first, second),
        messages=_share({**first, "tools": []}, {**second, "tools": []}),
        earlier=_share(_earlier(first), _earlier(second)),
    )


def _share(first: Request, second: Request) -> float:
    texts = _text(first), _text(second)
    common = takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
    return sum(1 for _ in common) / len(texts[1])


def _text(request: Request) -> str:
    """In the order in which providers cache it."""
    return "".join(json.dumps(part) for part in (request["tools"], *request["messages"]))


def _turn_part(request: Request) -> str:
    """Return the part of a request in front of a user's message."""
    said = (str(message["content"]) for message in request["messages"] if message["role"] == "user")
    return next((text.partition(_END)[0] + _END.strip() for text in said if text.startswith(_BEGIN)), "")


def _earlier(request: Request) -> Request:
    part = _turn_part(request)
    system, *others = request["messages"]
    moved = [{**message, "content": str(message["content"]).removeprefix(f"{part}\n\n")} for message in others]
    return (
        {**request, "messages": [{**system, "content": f"{system['content']}\n\n{part}"}, *moved]} if part else request
    )
