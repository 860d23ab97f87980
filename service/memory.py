"""The `Mnemic` object: what an application opens once and holds."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from langchain_core.tools import BaseTool

from mnemic.graphs.consolidation import ConsolidationGraph, build_consolidation
from mnemic.graphs.formation import FormationGraph, build_formation
from mnemic.graphs.recall import RecallGraph, build_recall
from mnemic.graphs.resources import open_resources
from mnemic.operations.formation.form import form_due, form_pending, formation_name
from mnemic.operations.messages.graph_memory import GraphMemory
from mnemic.operations.messages.incoming_message import HostMessage
from mnemic.operations.run.identity import to_identity
from mnemic.operations.run.leases import returned
from mnemic.operations.run.resources import Resources
from mnemic.operations.run.run_graph import run_graph
from mnemic.policy.overrides import checked_overrides
from mnemic.service.asked import ASKED, KEY, REVISION, ROLE, SCOPE_KEY, SWITCH
from mnemic.service.explicit import ExplicitWrites
from mnemic.service.governance.audit_export import AuditExport
from mnemic.service.governance.time_machine import OwnTimeMachine
from mnemic.service.hosts.nodes import HostNode, formation_node, observe_node, recall_node
from mnemic.service.hosts.supervisor import Supervising
from mnemic.service.reads import ExplicitReads
from mnemic.service.refining import OwnRefinement
from mnemic.service.threads import Threads
from mnemic.state.checking import checked
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import ConsolidationResult, FormationOutput, RecallOutput, SearchMode
from mnemic.state.identity import Identity
from mnemic.state.records import Observed, ScopeSettings, Usage
from mnemic.state.settings import Settings
from mnemic.storage import scopes, usage
from mnemic.storage.database import Scoped
from mnemic.storage.leases import Lease
from mnemic.storage.opening import describe_database
from mnemic.tools import make_tools

if TYPE_CHECKING:
    from mnemic.service.hosts.middleware import MemoryMiddleware


class Mnemic(ExplicitReads, ExplicitWrites, OwnRefinement, OwnTimeMachine, AuditExport, Threads, Supervising):
    """Long-term memory for agents: the compiled graphs, and a plain method for each.

    Every method takes the `Identity` of the run; it sees and writes that identity's scope keys and nothing else.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._consolidation = build_consolidation(self._provide)
        self._formation = build_formation(self._provide, self._consolidation)
        self._recall = build_recall(self._provide)
        self._turns = GraphMemory(self._provide, self._recall)

    @classmethod
    @asynccontextmanager
    async def open(cls, **settings: Any) -> AsyncIterator[Self]:
        """Opens database and models; arguments are settings and beat the environment.

        Raises:
            ConfigurationError: a setting does not fit.
            MnemicError: the database or the embedder cannot be had; the message says what to do.
        """
        async with open_resources(Settings(**settings)) as resources:
            try:
                yield cls(resources)
            finally:
                await resources.uses.write_all(resources.database)

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

    async def observe(
        self,
        identity: Identity,
        messages: Sequence[HostMessage],
        *,
        revision: int | None = None,
        several_speakers: bool = False,
    ) -> Observed:
        """Stores messages for formation; those the session has already are left out. Waits for no model.

        Args:
            identity: whose session it is, and whose words a user's messages are.
            messages: the whole conversation, or what is new of it.
            several_speakers: a message may name another speaker, as in a group's thread; only for messages whose
                `user` the host itself has set, and never as a client sent it.
            revision: that of the recall whose context the turn was answered with, so that the changes which it told of
                are not told again; None: they are.

        Raises:
            InvalidInputError: no session in the identity, an item that is no message, more than 100,000 of them, or a
                revision that no recall of this agent can have returned; nothing was written.
            RefusedIdentityError: a message names another speaker; nothing was written.
        """
        who = to_identity(identity)
        told, several = checked(REVISION, revision), checked(SWITCH, several_speakers)
        return await self._turns.observe(who, messages, revision=told, several_speakers=several)

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
        who = to_identity(identity)
        await self._resources.background.finish(formation_name(who))
        return await form_pending(self._resources, self._formation, who, force=force, retry=retry)

    async def form_later(self, identity: Identity) -> None:
        """Begins to form what is due, and does not wait for it: leaving `Mnemic.open` does, and so does `form`.

        What goes wrong is a warning in the log; the messages stay pending.

        Raises:
            InvalidInputError: no session in the identity.
        """
        who = to_identity(identity)
        due = partial(form_due, self._resources, self._formation, who)
        self._resources.background.begin(formation_name(who), due)

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
            result: ConsolidationResult = await run_graph(self._consolidation, asked, who, run_id)
        return result

    # -- memories come out

    async def context(
        self,
        identity: Identity,
        question: str = "",
        *,
        search: SearchMode = "auto",
        budget_tokens: int | None = None,
    ) -> RecallOutput:
        """What belongs into the prompt for this turn: the standing part, and search results where it asks for them.

        Where the embedder or the database fails, the turn goes on with less, and `degraded` says so. The context begins
        with what changed since the session was told last; `observe` takes the `revision`.
        """
        return await self._turns.context(identity, question, search=search, budget_tokens=budget_tokens)

    async def recall_text(self, identity: Identity, question: str) -> str:
        """The context for a turn as text; empty where there is nothing to say."""
        return (await self.context(identity, question))["context"]

    # -- in a host's own agent or graph

    def tools(self, role: str = "supervisor") -> list[BaseTool]:
        """The tools of an agent in this role, for LangChain's `create_agent`, `ToolNode` or `bind_tools`.

        They take the identity from the context of the run that calls them, and act in this role whatever it says.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: the role is no text.
        """
        categories = self._resources.categories
        allowed, writable = categories.of_role(checked(ROLE, role)).categories, categories.writable(role)
        loop = self._resources.database.loop
        return make_tools(self._provide, role, allowed=allowed, writable=writable, loop=loop)

    def middleware(
        self,
        role: str = "supervisor",
        *,
        search: SearchMode = "auto",
        budget_tokens: int | None = None,
        observe: bool = True,
        form: bool = True,
        several_speakers: bool = False,
    ) -> "MemoryMiddleware":
        """Memory for `langchain.agents.create_agent`: the context, the role's tools, and what was said goes in.

        Args:
            role: the agent's; its allowlist holds, whatever the identity says.
            search: as in `context`.
            budget_tokens: as in `context`.
            observe: off for a subagent, whose user is another model.
            form: has formed what is due after a turn, without waiting for it; off where another process forms.
            several_speakers: as in `observe`.

        Raises:
            InvalidInputError: an argument cannot be used.
        """
        from mnemic.service.hosts.middleware import MemoryMiddleware

        asked = checked(ASKED, {"role": role, "search": search, "budget_tokens": budget_tokens}, strict=None)
        given = {"observe": observe, "form": form, "several_speakers": several_speakers}
        switches = {name: checked(SWITCH, switch) for name, switch in given.items()}
        return MemoryMiddleware(self, asked, self.tools(role), self._resources.database.loop, **switches)

    def recall_node(
        self,
        *,
        role: str | None = None,
        search: SearchMode = "auto",
        budget_tokens: int | None = None,
        messages_key: str = "messages",
    ) -> HostNode:
        """A node for a graph whose state is a `MemoryState`: leaves what memory says to this turn in it.

        Args:
            role: whose allowlist holds; None: that of the identity's role.
            search: as in `context`; `always` is for the agent that is not sure of its answer.
            budget_tokens: as in `context`.
            messages_key: the channel that holds the conversation.

        Raises:
            InvalidInputError: an argument cannot be used.
        """
        asked = checked(ASKED, {"role": role, "search": search, "budget_tokens": budget_tokens}, strict=None)
        return recall_node(self, asked, checked(KEY, messages_key))

    def observe_node(self, *, messages_key: str = "messages", several_speakers: bool = False) -> HostNode:
        """A node that stores the conversation for formation, each message once; it waits for no model.

        Args:
            messages_key: the channel that holds the conversation.
            several_speakers: as in `observe`.

        Raises:
            InvalidInputError: an argument cannot be used.
        """
        return observe_node(self, checked(KEY, messages_key), several_speakers=checked(SWITCH, several_speakers))

    def formation_node(self) -> HostNode:
        """A node that has formed what is due, as `form_later` does: the turn waits for no model."""
        return formation_node(self)

    # -- settings and figures

    async def configure_agent(self, identity: Identity, **overrides: Any) -> None:
        """Sets what the agent overrides of the settings; others that it has set stay, and None takes one back.

        Raises:
            ConfigurationError: a name may not be overridden, or the values do not fit; nothing was written.
        """
        who = to_identity(identity)

        async def act(scoped: Scoped) -> None:
            given = {**await scopes.hold_agent(scoped), **overrides}
            settings = self.settings.overridden(given)
            if overrides.keys() & {"refinement_budget_tokens", "refinement_target_tokens"}:
                settings.require_target_within_budget()
            own = {name for name, value in given.items() if value is not None}
            await scopes.configure_agent(scoped, settings.model_dump(mode="json", include=own))

        await self._resources.database.write(who, act)

    async def agent_settings(self, identity: Identity) -> Settings:
        """The settings in force for the identity's agent, with what it overrides."""
        async with self._resources.database.scoped(to_identity(identity)) as scoped:
            return self.settings.overridden(await scopes.agent_settings(scoped))

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

    async def _provide(self) -> Resources:
        return self._resources
