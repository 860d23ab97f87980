"""What a turn asks of the memory and tells it, for `Mnemic` and for a graph that a server loads by its name."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.pregel import Pregel

from mnemic.operations.messages.incoming_message import HostMessage
from mnemic.operations.messages.normalize import to_messages
from mnemic.operations.messages.observe import observe
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.run_graph import run_graph
from mnemic.state.graphs import RecallOutput, SearchMode
from mnemic.state.identity import Identity
from mnemic.state.records import Observed


class GraphMemory:
    """What remembers (`TurnMemory`), made of resources and the recall graph."""

    def __init__(self, provide: Provider, recall: Pregel[Any, Identity, Any, Any]) -> None:
        self._provide = provide
        self._recall = recall

    async def context(
        self,
        identity: Identity,
        question: str = "",
        *,
        search: SearchMode = "auto",
        budget_tokens: int | None = None,
    ) -> RecallOutput:
        """As `Mnemic.context`."""
        asked = {"question": question, "search": search, "budget_tokens": budget_tokens}
        recalled: RecallOutput = await run_graph(self._recall, asked, identity)
        return recalled

    async def observe(
        self,
        identity: Identity,
        messages: Sequence[HostMessage],
        *,
        revision: int | None = None,
        several_speakers: bool = False,
    ) -> Observed:
        """As `Mnemic.observe`."""
        # a whole conversation, turn after turn: 17 ms for 1,000 messages
        new = await asyncio.to_thread(
            to_messages, messages, identity, now=datetime.now(UTC), several_speakers=several_speakers
        )
        return await observe(await self._provide(), identity, new, revision)
