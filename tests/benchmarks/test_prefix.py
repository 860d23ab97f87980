"""The harness of prompt caching: figures of requests of a few letters, and its gate on the example conversations."""

from typing import Any

import pytest

from benchmarks.prefix.__main__ import report
from benchmarks.prefix.shares import pairs_of
from benchmarks.prefix.talking import talked
from tests.support.server import Clone


def request(*said: str) -> dict[str, Any]:
    """The system message, then what a user and an assistant say by turns."""
    roles = ["system", *["user", "assistant"] * len(said)]
    return {"tools": [], "messages": [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]}


def test_pair_measures_its_prefix_with_and_without_memory_in_the_system() -> None:
    memory = "<MemoryContext>\n- x\n</MemoryContext>\n\n"
    plain, searched = request("Be.", "Hi."), request("Be.", "Hi.", "Hi.", f"{memory}Bees?")
    turns = [[plain], [searched, request("Be.", "Hi.", "Hi.", f"{memory}Bees?", "A.")]]
    between, within = pairs_of(turns)
    assert between.kind == "turn to turn: not searched → searched"
    whole = between.characters
    assert between.now == between.messages == len(str(plain["messages"])) / whole - 2 / whole  # without a list's ends
    assert between.earlier < between.now
    assert (within.kind, within.now > 0.7, within.earlier > 0.7) == ("within a turn", True, True)


@pytest.mark.thorough
async def test_nine_tenths_of_a_request_can_be_cached_in_searched_turns_too(clean_db: Clone) -> None:
    pairs = await talked(2000, database_url=clean_db.service_dsn)
    turns = ("searched → searched", "searched → not searched", "not searched → searched")
    assert {pair.kind for pair in pairs} == {"within a turn", *(f"turn to turn: {turn}" for turn in turns)}
    assert min(pair.now for pair in pairs) >= 0.9
    assert report(pairs)
    assert max(pair.earlier for pair in pairs if pair.kind.endswith("→ searched")) < 0.6
