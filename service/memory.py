"""The `Mnemic` object: what an application opens once and holds."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Literal, Self
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from pydantic import ValidationError

from mnemic.graphs.consolidation import ConsolidationGraph, build_consolidation
from mnemic.graphs.formation import FormationGraph, build_formation
from mnemic.graphs.recall import RecallGraph, build_recall
from mnemic.graphs.resources import open_resources
from mnemic.nodes.decide_search import MAX_QUESTION_CHARS
from mnemic.nodes.incoming import HostMessage, to_messages
from mnemic.nodes.resources import Resources
from mnemic.policy.hygiene import clean_text, clip_text
from mnemic.policy.overrides import checked_overrides
from mnemic.state.errors import ConfigurationError, InvalidInputError
from mnemic.state.graphs import ConsolidationResult, FormationOutput, RecallOutput
from mnemic.state.identity import Identity
from mnemic.state.records import Found, HistoryEvent, Kind, Memory, Observed, ScopeSettings, SearchType, Usage
from mnemic.state.settings import Settings
from mnemic.storage import history, inbox, memories, scopes, usage
from mnemic.storage.opening import describe_database
from mnemic.storage.search import search

#: Kinds that are memories of their own, in the order they are listed.
ALL_KINDS: tuple[Kind, ...] = (
    "core",
    "consolidation",
    "reflection",
    "fact",
    "episode",
    "insight",
    "procedure",
    "journal",
)
#: Memories a listing returns at most.
MAX_LISTED = 100_000
#: Results of a search by method (3 as a tool, 5 in an automatic recall).
SEARCH_LIMIT = 10
#: A host's node that calls these graphs hands its own durability down, and LangGraph 1.2 fails under "sync" to run a
#: graph that keeps no checkpoints (`_put_checkpoint_fut`); its argument `durability` warns for such a graph.
_IN_A_HOST: RunnableConfig = {"configurable": {"__pregel_durability": "async"}}


def read_settings(**settings: Any) -> Settings:
    """The settings of the environment; arguments beat it.

    Raises:
        ConfigurationError: a setting does not fit.
    """
    try:
        return Settings(**settings)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise ConfigurationError(f"settings do not fit: {problems}") from None


class Mnemic:
    """Long-term memory for agents: the compiled graphs, and a plain method for each.

    Every method takes the `Identity` of the run; it sees and writes that identity's scope keys and nothing else.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._formation = build_formation(self._provide)
        self._consolidation = build_consolidation(self._provide)
        self._recall = build_recall(self._provide)

    @classmethod
    @asynccontextmanager
    async def open(cls, **settings: Any) -> AsyncIterator[Self]:
        """Opens database and models; arguments are settings and beat the environment.

        Raises:
            ConfigurationError: a setting does not fit.
            MnemicError: the database or the embedder cannot be had; the message says what to do.
        """
        async with open_resources(read_settings(**settings)) as resources:
            yield cls(resources)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._resources.settings

    def describe(self) -> str:
        """Model, embedder and database in use, on one line."""
        resources = self._resources
        return (
            f"model: {resources.models.describe()}; embedder: {resources.embedder.name}; "
            f"database: {describe_database(resources.settings)}"
        )

    # -- the graphs

    def formation(self) -> FormationGraph:
        """The compiled formation graph."""
        return self._formation

    def consolidation(self) -> ConsolidationGraph:
        """The compiled consolidation graph."""
        return self._consolidation

    def recall(self) -> RecallGraph:
        """The compiled recall graph."""
        return self._recall

    # -- a conversation goes in

    async def observe(self, identity: Identity, messages: Sequence[HostMessage]) -> Observed:
        """Stores messages for formation; those the session has already are left out. Waits for no model.

        Raises:
            InvalidInputError: no session in the identity, or an item that is no message; nothing was written.
        """
        new = to_messages(messages, identity, now=datetime.now(UTC))
        if identity.session_id is None:
            raise InvalidInputError("messages belong to a session: give the identity a session_id")
        keys = [message.scope_key for message in new]
        async with self._resources.database.scoped(identity, also=keys) as scoped:
            return await inbox.observe(scoped, identity.session_id, new)

    async def form(self, identity: Identity, *, force: bool = True) -> list[FormationOutput]:
        """Forms what the session has pending, run after run until nothing is due.

        Args:
            force: also what no trigger would call due yet.

        Raises:
            ModelError: the model failed; the messages stay pending.
        """
        runs: list[FormationOutput] = []
        while True:
            run: FormationOutput = await _run(self._formation, {"force": force}, identity)
            if run["reason"] is None:
                return runs
            runs.append(run)

    async def consolidate(self, identity: Identity, scope_key: str, *, force: bool = False) -> ConsolidationResult:
        """Rewrites the living text of one of the identity's scope keys, if that is due.

        Args:
            force: also below the threshold.
        """
        result: ConsolidationResult = await _run(
            self._consolidation, {"scope_key": scope_key, "force": force}, identity
        )
        return result

    # -- memories come out

    async def context(
        self,
        identity: Identity,
        question: str = "",
        *,
        search: Literal["auto", "always", "never"] = "auto",
        budget_tokens: int | None = None,
    ) -> RecallOutput:
        """What belongs into the prompt for this turn: the standing part, and search results where it asks for them."""
        asked = {"question": question, "search": search, "budget_tokens": budget_tokens}
        result: RecallOutput = await _run(self._recall, asked, identity)
        return result

    async def recall_text(self, identity: Identity, question: str) -> str:
        """The context for a turn as text; empty where there is nothing to say."""
        return (await self.context(identity, question))["context"]

    async def search(
        self, identity: Identity, question: str, *, limit: int = SEARCH_LIMIT, search_type: SearchType = "hybrid"
    ) -> list[Found]:
        """The memories and kept messages that fit a question best, best first.

        Raises:
            InvalidInputError: an empty question, or a limit outside 1..100.
        """
        question = clip_text(clean_text(question), MAX_QUESTION_CHARS)
        if not question or not 1 <= limit <= 100:
            raise InvalidInputError("a search needs a question, and a limit from 1 to 100")
        resources = self._resources
        vector = None if search_type == "text" else (await resources.embedder.embed([question]))[0]
        async with resources.database.scoped(identity) as scoped:
            return await search(
                scoped,
                question,
                vector,
                model=resources.embedder.name,
                settings=resources.settings,
                most=limit,
                search_type=search_type,
            )

    async def memories(
        self, identity: Identity, kinds: Sequence[Kind] = ALL_KINDS, *, limit: int = 1000, with_closed: bool = False
    ) -> list[Memory]:
        """The identity's memories, newest first; superseded and absorbed ones too where asked.

        Raises:
            InvalidInputError: a limit outside 1..100,000.
        """
        if not 1 <= limit <= MAX_LISTED:
            raise InvalidInputError(f"a listing needs a limit from 1 to {MAX_LISTED}")
        async with self._resources.database.scoped(identity) as scoped:
            return await memories.living(scoped, kinds, most=limit, with_closed=with_closed)

    async def history(self, identity: Identity, memory_id: UUID) -> list[HistoryEvent]:
        """Everything that happened to one memory, oldest first; empty for an unknown or foreign id."""
        async with self._resources.database.scoped(identity) as scoped:
            return await history.of_memory(scoped, memory_id)

    # -- settings and figures

    async def configure_agent(self, identity: Identity, **overrides: Any) -> None:
        """Replaces what the agent overrides of the settings.

        Raises:
            ConfigurationError: a name may not be overridden, or a value does not fit; nothing was written.
        """
        self.settings.overridden(overrides)
        async with self._resources.database.scoped(identity) as scoped:
            await scopes.configure_agent(scoped, overrides)

    async def configure_scope(self, identity: Identity, overrides: ScopeSettings) -> None:
        """Replaces what one of the identity's scope keys overrides: its name, guidance, threshold and word limit.

        Raises:
            InvalidInputError: the scope key is none of the identity's, or a value cannot be used; nothing was written.
        """
        if overrides.scope_key not in identity.scope_keys:
            raise InvalidInputError("the scope key to configure is none of this identity's")
        checked = checked_overrides(overrides)
        async with self._resources.database.scoped(identity) as scoped:
            await scopes.configure_scope(scoped, checked)

    async def usage(self, identity: Identity) -> list[Usage]:
        """Tokens the agent has used, by step and model."""
        async with self._resources.database.scoped(identity) as scoped:
            return await usage.totals(scoped)

    async def _provide(self) -> Resources:
        return self._resources


async def _run(graph: Pregel[Any, Identity, Any, Any], given: dict[str, Any], identity: Identity) -> Any:
    """A graph's output; the graphs' own types say only that it is a dict."""
    return await graph.ainvoke(given, context=identity, config=_IN_A_HOST)
