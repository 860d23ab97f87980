"""The `Mnemic` object: what an application opens once and holds."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Literal, Self
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from mnemic.graphs.consolidation import ConsolidationGraph, build_consolidation
from mnemic.graphs.formation import FormationGraph, build_formation
from mnemic.graphs.recall import RecallGraph, build_recall
from mnemic.graphs.resources import open_resources
from mnemic.models.embedders import Vector
from mnemic.nodes.holding import formation_lease, returned
from mnemic.nodes.incoming import to_messages
from mnemic.nodes.lines import session_of
from mnemic.nodes.resources import Resources
from mnemic.nodes.said import HostMessage
from mnemic.nodes.who import to_identity
from mnemic.policy.hygiene import clean_question
from mnemic.policy.overrides import checked_overrides
from mnemic.service.asked import ALL_KINDS, LISTING, MEMORY_ID, SCOPE_KEY, SEARCH, SEARCH_LIMIT
from mnemic.state.checking import checked
from mnemic.state.errors import ConcurrentChangeError, EmbeddingError, InvalidInputError
from mnemic.state.graphs import ConsolidationResult, FormationOutput, RecallOutput
from mnemic.state.identity import Identity
from mnemic.state.records import Found, HistoryEvent, Kind, Memory, Observed, ScopeSettings, SearchType, Usage
from mnemic.state.settings import Settings
from mnemic.storage import history, inbox, memories, scopes, usage
from mnemic.storage.leases import Lease
from mnemic.storage.opening import describe_database
from mnemic.storage.search import search

#: Times in a row that other runs may be faster before a caller hears of it.
OVERTAKEN = 3
#: A host's node that calls these graphs hands its own durability down, and LangGraph 1.2 fails under "sync" to run a
#: graph that keeps no checkpoints (`_put_checkpoint_fut`); its argument `durability` warns for such a graph.
_IN_A_HOST: RunnableConfig = {"configurable": {"__pregel_durability": "async"}}


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
        async with open_resources(Settings(**settings)) as resources:
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
            InvalidInputError: no session in the identity, an item that is no message, or more than 100,000 of them;
                nothing was written.
        """
        who = to_identity(identity)
        new = to_messages(messages, who, now=datetime.now(UTC))
        return await self._resources.database.write(who, lambda scoped: inbox.observe(scoped, session_of(who), new))

    async def form(self, identity: Identity, *, force: bool = True, retry: bool = False) -> list[FormationOutput]:
        """Forms what the session has pending, run after run until nothing is due.

        A last run that formed nothing says what is left: what another run has (`leased`), what has to wait after a
        failure (`backoff`), or what was set aside.

        Args:
            force: also what no trigger would call due yet, and what has to wait after a failure.
            retry: what was set aside, and nothing else.

        Raises:
            ModelError: the model or the embedder failed; the messages stay pending, as after any error.
            ConcurrentChangeError: other runs were faster, time and again.
            DatabaseUnavailableError: the database cannot be had in time.
            InvalidInputError: no session in the identity.
        """
        runs: list[FormationOutput] = []
        overtaken = 0
        while True:
            try:
                run = await self._form_once(to_identity(identity), force=force, retry=retry)
            except ConcurrentChangeError:
                overtaken += 1
                if overtaken == OVERTAKEN:
                    raise
                continue
            if run["reason"] is not None or run["waits"] or run["set_aside"]:
                runs.append(run)
            if run["reason"] is None:
                return runs

    async def _form_once(self, identity: Identity, *, force: bool, retry: bool) -> FormationOutput:
        run_id = uuid4()
        asked = {"force": force, "retry": retry}
        async with returned(self._resources, identity, formation_lease(identity, run_id, retry=retry)):
            run: FormationOutput = await _run(self._formation, asked, identity, run_id)
        return run

    async def consolidate(self, identity: Identity, scope_key: str, *, force: bool = False) -> ConsolidationResult:
        """Rewrites the living text of one of the identity's scope keys, if that is due.

        Args:
            force: also below the threshold, and without the wait after a failure.
        """
        who, run_id = to_identity(identity), uuid4()
        key = checked(SCOPE_KEY, scope_key)
        asked = {"scope_key": key, "force": force}
        lease = Lease(work="consolidation", scope_key=key, holder=run_id)
        async with returned(self._resources, who, lease):
            result: ConsolidationResult = await _run(self._consolidation, asked, who, run_id)
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
        """What belongs into the prompt for this turn: the standing part, and search results where it asks for them.

        Where the embedder or the database fails, the turn goes on with less, and `degraded` says so.
        """
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
            InvalidInputError: an empty question, a limit outside 1..100, or another type of search.
            EmbeddingError: the question could not be embedded; a search by text needs no embedder.
            DatabaseUnavailableError: the database cannot be had in time.
        """
        who = to_identity(identity)
        asked = checked(SEARCH, {"question": question, "limit": limit, "search_type": search_type})
        words = clean_question(asked["question"])
        if not words:
            raise InvalidInputError("a search needs a question that says something")
        resources = self._resources
        vector = None if search_type == "text" else await self._vector(words)
        async with resources.database.scoped(who, for_recall=True) as scoped:
            return await search(
                scoped,
                words,
                vector,
                model=resources.embedder.name,
                settings=resources.settings,
                most=asked["limit"],
                search_type=asked["search_type"],
            )

    async def memories(
        self, identity: Identity, kinds: Sequence[Kind] = ALL_KINDS, *, limit: int = 1000, with_closed: bool = False
    ) -> list[Memory]:
        """The identity's memories, newest first; superseded and absorbed ones too where asked.

        Raises:
            InvalidInputError: an unknown kind, or a limit outside 1..100,000.
        """
        who = to_identity(identity)
        asked = checked(LISTING, {"kinds": kinds, "limit": limit, "with_closed": with_closed})
        async with self._resources.database.scoped(who) as scoped:
            return await memories.living(scoped, asked["kinds"], most=asked["limit"], with_closed=asked["with_closed"])

    async def history(self, identity: Identity, memory_id: UUID | str) -> list[HistoryEvent]:
        """Everything that happened to one memory, oldest first; empty for an unknown or foreign id.

        Raises:
            InvalidInputError: no id.
        """
        who = to_identity(identity)
        wanted = checked(MEMORY_ID, memory_id, strict=None)
        async with self._resources.database.scoped(who) as scoped:
            return await history.of_memory(scoped, wanted)

    # -- settings and figures

    async def configure_agent(self, identity: Identity, **overrides: Any) -> None:
        """Replaces what the agent overrides of the settings.

        Raises:
            ConfigurationError: a name may not be overridden, or a value does not fit; nothing was written.
        """
        who = to_identity(identity)
        values = self.settings.overridden(overrides).model_dump(mode="json", include=set(overrides))
        await self._resources.database.write(who, lambda scoped: scopes.configure_agent(scoped, values))

    async def configure_scope(self, identity: Identity, overrides: ScopeSettings) -> None:
        """Replaces what one of the identity's scope keys overrides: its name, guidance, threshold and word limit.

        Raises:
            InvalidInputError: the scope key is none of the identity's, or a value cannot be used; nothing was written.
        """
        who, wanted = to_identity(identity), checked_overrides(overrides)
        if wanted.scope_key not in who.scope_keys:
            raise InvalidInputError("the scope key to configure is none of this identity's")
        await self._resources.database.write(who, lambda scoped: scopes.configure_scope(scoped, wanted))

    async def usage(self, identity: Identity) -> list[Usage]:
        """Tokens the agent has used, by step and model."""
        async with self._resources.database.scoped(to_identity(identity)) as scoped:
            return await usage.totals(scoped)

    async def _vector(self, question: str) -> Vector:
        try:
            return (await self._resources.embedder.embed([question]))[0]
        except EmbeddingError as error:
            raise EmbeddingError(f'{error}; search_type="text" searches without the embedder') from None

    async def _provide(self) -> Resources:
        return self._resources


async def _run(
    graph: Pregel[Any, Identity, Any, Any], given: dict[str, Any], identity: Identity, run_id: UUID | None = None
) -> Any:
    """A graph's output; the graphs' own types say only that it is a dict."""
    config: RunnableConfig = {**_IN_A_HOST, "run_id": run_id or uuid4()}
    return await graph.ainvoke(given, context=to_identity(identity), config=config)
