"""Stores a core memory, has the product refine it, and reads back what became of each memory."""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig

from benchmarks.refinement.cores import Core, ModelOverrides
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import search_text
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import Memory, NewMemory
from mnemic.state.refinement import RefinementInput
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction

_MERGED = "select from_id, to_id from relations where agent_id = %(agent_id)s and relation_type = 'merged_from'"
#: Each with its text when it was protected.
_PROTECTED = """
select h.memory_id, c.after ->> 'content' from history h join history_contents c using (agent_id, revision)
 where h.agent_id = %(agent_id)s and h.event = 'PROTECT'
"""


class Calls(AsyncCallbackHandler):
    """Counts the tool calls as the model sent them, and what became of them."""

    def __init__(self) -> None:
        self.sent = self.answered = self.refused = 0

    async def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Record the model's calls, before any code of the product reads them."""
        answer = response.generations[0][0]
        if isinstance(answer, ChatGeneration) and isinstance(answer.message, AIMessage):
            self.sent += len(answer.message.tool_calls) + len(answer.message.invalid_tool_calls)


@dataclass(frozen=True, kw_only=True)
class Refined:
    """A core memory before and after."""

    core: Core
    calls: Calls
    before: Mapping[UUID, ModelOverrides]
    #: The living memories, and the original ones that each took in, itself among them where it is one.
    after: Sequence[Memory]
    taken: Mapping[UUID, Sequence[UUID]]
    #: What each protected memory said when it was protected.
    protected: Mapping[UUID, str]


async def refine(resources: Resources, core: Core, today: date | None = None) -> Refined:
    """Store the memories as the context memory of an agent of its own, and refine it.

    What the model is sent is the same in every run: the agent and the memories have the same names and ids, and today
    is the day of the newest memory unless another is given.
    """
    who = Identity(agent_id=re.sub(r"\W+", "-", core.name), user_id="curator")
    before = {uuid5(NAMESPACE_OID, f"{core.name} {place}"): given for place, given in enumerate(core.memories)}
    day = today or max(given.dated for given in core.memories).date()
    service = Mnemic(replace(resources, today=lambda _: day))
    if await service.memories(who, ("core", "reflection")):
        sys.exit(f"This database holds {core.name} already: take a fresh one, or none")
    await service.admin.configure_agent(who, refinement_target_tokens=core.target)
    await _store(resources, who, before)
    calls, given = Calls(), RefinementInput(scope_key=scope_key("agent", who.agent_id), force=True)
    config: RunnableConfig = {"callbacks": [calls], "recursion_limit": 10_000}
    running = service.graphs.refinement.astream(given, config, context=who, stream_mode="custom")
    async for done in running:
        calls.answered += 1
        calls.refused += done["refused"]
    after = await service.memories(who, ("core", "reflection"))
    async with resources.database.transaction(who) as tx:
        merged, protected = await tx.tuples(_MERGED, {}), await tx.tuples(_PROTECTED, {})
    taken = _taken(after, merged, before)
    return Refined(core=core, calls=calls, before=before, after=after, taken=taken, protected=dict(protected))


async def _store(resources: Resources, who: Identity, given: Mapping[UUID, ModelOverrides]) -> None:
    rows = [
        NewMemory(
            id=id_,
            kind="core",
            scope_key=scope_key("agent", who.agent_id),
            category=memory.category,
            content=memory.text,
            search_text=search_text(memory.dated, memory.subject, memory.text),
            subject=memory.subject,
            subject_user_id=memory.subject_user_id,
            valid_from=memory.dated,
        )
        for id_, memory in given.items()
    ]

    async def act(tx: ScopedTransaction) -> None:
        await tx.begin_operation("formation")
        await memories.insert(tx, rows, model=resources.embedder.name, vectors={}, run_id=None)

    await resources.database.write(who, act)


def _taken(
    after: Sequence[Memory], merged: Sequence[tuple[UUID, UUID]], before: Mapping[UUID, ModelOverrides]
) -> dict[UUID, list[UUID]]:
    """Return the original memories in each active one; a merge may contain earlier merges."""
    parts: dict[UUID, list[UUID]] = defaultdict(list)
    for new, old in merged:
        parts[new].append(old)

    def originals(id_: UUID) -> list[UUID]:
        return [id_] if id_ in before else [found for part in parts[id_] for found in originals(part)]

    return {memory.id: originals(memory.id) for memory in after}
