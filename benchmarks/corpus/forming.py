"""Runs every example conversation through the product's own formation."""

import json
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from typing import Any
from uuid import uuid4

from benchmarks.corpus.matching import expectations
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.records import Memory

GROUP = "harbor"


@dataclass(frozen=True, kw_only=True)
class Formed:
    """What the corpus became."""

    described: str
    #: Facts and reflections, closed ones included.
    memories: tuple[Memory, ...]
    #: How texts fared with the validator.
    checks: dict[str, int]


def sessions() -> list[list[dict[str, Any]]]:
    """The conversations of which it is listed what to remember, in order, each a list of messages."""
    folder = resources.files("mnemic.examples").joinpath("conversations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".jsonl"))
    read = [[json.loads(line) for line in folder.joinpath(name).read_text("utf-8").splitlines()] for name in names]
    listed = {fact.session for fact in expectations()[0]}
    return [rows for rows in read if rows[0]["session"] in listed]


async def form_corpus(**settings: Any) -> Formed:
    """Forms all sessions under an agent of their own and reads back what was stored."""
    agent_id = f"corpus-{uuid4().hex[:8]}"
    checks: Counter[str] = Counter()
    people: set[str] = set()
    async with Mnemic.open(**settings) as memory:
        for rows in sessions():
            speakers = list(dict.fromkeys(row["author"] for row in rows if row["role"] == "user"))
            people.update(speakers)
            who = Identity(agent_id=agent_id, user_id=speakers[0], group_ids=(GROUP,), session_id=rows[0]["session"])
            await memory.observe(who, rows, several_speakers=True)
            for run in await memory.form(who):
                checks.update(run["checks"])
        found: dict[Any, Memory] = {}
        for person in sorted(people):
            who = Identity(agent_id=agent_id, user_id=person, group_ids=(GROUP,))
            for item in await memory.memories(who, ("fact", "reflection"), with_closed=True):
                found[item.id] = item
        return Formed(described=memory.describe(), memories=tuple(found.values()), checks=dict(checks))
