"""The `Mnemic` object, which an application opens once and keeps."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast
from uuid import uuid4

from langchain_core.tools import BaseTool
from pydantic import SkipValidation

from mnemic.memory.explicit.caller import TrustedCaller
from mnemic.memory.explicit.correct import correct
from mnemic.memory.explicit.forget import forget
from mnemic.memory.explicit.remember import remember, remember_procedure
from mnemic.memory.explicit.texts import checked_sentence
from mnemic.memory.explicit.update import update
from mnemic.memory.messages.incoming import HostMessage
from mnemic.memory.messages.turn import RecallOptions, form_pending, formation_name, observe
from mnemic.memory.recall.query import list_memories
from mnemic.memory.recall.query import query as run_query
from mnemic.memory.recall.steps import recall as run_recall
from mnemic.memory.runtime.access import get_memory
from mnemic.memory.runtime.graph import run_leased
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.prompts.explicit import refusals
from mnemic.service.admin import Admin
from mnemic.service.governance.history import History
from mnemic.service.governance.privacy import Privacy
from mnemic.service.graphs import Graphs
from mnemic.service.hosts.middleware import MemoryMiddleware, TurnOptions
from mnemic.service.hosts.nodes import HostNodes
from mnemic.service.hosts.threads import Threads
from mnemic.service.memory_opening import open_memory
from mnemic.service.opening import require_opened
from mnemic.service.own_thread import in_own_thread, to_sync_memory
from mnemic.service.usage import UsageReports
from mnemic.state.checking import AnyId, Limit, Revision, Time, check_arguments, to_uuid, validate
from mnemic.state.errors import InvalidInputError
from mnemic.state.explicit import Corrected, ExplicitScope, ProcedureRequest, Remembered, RememberRequest, UpdateRequest
from mnemic.state.graphs import FormationInput, Lease, RecallInput, SearchMode
from mnemic.state.identity import AnyIdentity, HostId, Identity, Scope
from mnemic.state.kinds import KINDS, ExplicitKind, Kind, SearchType
from mnemic.state.query import METHOD_TOP_K, BudgetTokens, MemoryFilters, MemoryQuery
from mnemic.state.records import Memory, Observed, SearchResult
from mnemic.state.refinement import RefinementOutput
from mnemic.state.results import Forgotten, FormationResult, RecallResult, RefinementResult
from mnemic.state.settings import Settings
from mnemic.tools.memory import make_tools


class Mnemic:
    """Long-term memory for agents. Open one with `async with Mnemic.open() as memory:`.

    A program without an event loop uses `with Mnemic.open_sync() as memory:`, with the same methods without `await`.
    Every method takes the `Identity` of the run. It sees and writes that identity's scope keys and nothing else.
    Namespaces hold the rest.

    Attributes:
        history: operations, their rollback, and past states.
        threads: threads of LangGraph.
        privacy: sharing, export and erasure for the person concerned.
        admin: settings of agents and scope keys, and the work on memories outside a conversation.
        usage: tokens and counts over time.
        graphs: the compiled graphs, for a graph of your own.
        nodes: nodes for a host's own graph.
        resources: settings, database and models; used by the server, the command line and the middleware.
    """

    @require_opened(Resources)
    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._provide = Provider.of(resources)
        self.graphs = Graphs(self._provide, resources.categories)
        self.nodes = HostNodes(resources)
        self.history = History(self._person, resources)
        self.threads = Threads(resources)
        self.privacy = Privacy(resources, self._person)
        self.admin = Admin(resources, self.graphs)
        self.usage = UsageReports(resources)

    def _person(self, identity: Identity) -> Principal:
        return Principal.person(self.resources.database, identity)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.resources.settings

    open = staticmethod(open_memory)
    open_sync = staticmethod(in_own_thread(open_memory, to_sync_memory))

    @check_arguments
    async def recall(
        self,
        identity: AnyIdentity,
        question: str = "",
        *,
        previous: str = "",
        search: SearchMode = "auto",
        budget_tokens: BudgetTokens | None = None,
    ) -> RecallResult:
        """Return the memory context of this turn: always-in-context memories, and search results if needed.

        `mnemic.with_memory` puts its `context` into a request. If the embedder or the database fails, the turn goes on
        with less, and `degraded` names the missing part. The context lists changes since the session's last recall;
        pass its `revision` to `observe`.

        Args:
            identity: identity of the run; its role limits the categories.
            question: the message of this turn.
            previous: the user's message before it, for questions such as "and the dog?".
            search: `auto`: rules decide by the question; `always`: the agent is not sure of its answer; `never`.
            budget_tokens: maximum tokens of the search results; None for the setting.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if an argument cannot be used.
        """
        request: RecallInput = {
            "question": question,
            "previous": previous,
            "search": search,
            "budget_tokens": budget_tokens,
        }
        return RecallResult.from_state(await run_recall(self.resources, identity, request))

    @check_arguments
    async def query(
        self,
        identity: AnyIdentity,
        query: str,
        *,
        categories: Sequence[str] | None = None,
        filters: SkipValidation[MemoryFilters | Mapping[str, Any] | None] = None,
        scopes: Sequence[Scope] | None = None,
        search_type: SearchType = "hybrid",
        top_k: int = METHOD_TOP_K,
        threshold: float | None = None,
        budget_tokens: int | None = None,
    ) -> list[SearchResult]:
        """Return the memories and messages that fit a question best, best first, with the parts of their scores.

        At most two related memories may follow (`related_to`).

        Args:
            identity: identity of the run; its role limits the categories.
            query: the question; a phrase in quotation marks must occur in each result.
            categories: only these; None for all that the role may read.
            filters: further limits by the names of `MemoryFilters`, such as `{"importance_min": 3, "updated_after":
                "2026-03-02"}`: changed or said since that day; `updated_before` excludes its own.
            scopes: only these scopes of the identity.
            search_type: words and meaning, or one of them.
            top_k: maximum number of results.
            threshold: minimum cosine similarity of a result.
            budget_tokens: maximum tokens of the results as lines of a prompt.

        Raises:
            CategoryRefusedError: if a category is not on the role's allowlist, or the role has none.
            InvalidInputError: if the question is empty, a filter is unknown, or a value is out of its bounds.
            EmbeddingError: if the question could not be embedded; a search by text needs no embedder.
            DatabaseUnavailableError: if the database cannot be reached in time.
        """
        is_checked = isinstance(filters, MemoryFilters)
        request = {
            "query": query,
            "categories": categories,
            "filters": filters if is_checked else validate(dict, filters or {}, strict=False),
            "scopes": scopes,
            "search_type": search_type,
            "top_k": top_k,
            "threshold": threshold,
            "returns": "full",
            "budget_tokens": budget_tokens,
        }
        return await run_query(self.resources, identity, validate(MemoryQuery, request, strict=None))

    @check_arguments
    async def observe(
        self,
        identity: AnyIdentity,
        messages: SkipValidation[Sequence[HostMessage]],
        *,
        revision: Revision | None = None,
        several_speakers: bool = False,
    ) -> Observed:
        """Store messages for formation, except those that the session already has. It waits for no model.

        Args:
            identity: the owner of the session, and the author of messages with the role `user`.
            messages: the whole conversation, or its new messages.
            several_speakers: whether a message may name another speaker, as in a group's thread; only if the host, not
                a client, has set the `user` of each message.
            revision: the `revision` returned by the recall for this turn, so that its changes are not announced again;
                None to announce them again.

        Raises:
            InvalidInputError: if the identity has no session, an item is no message or has an unknown role, there are
                more than 100,000 of them, or no recall of this agent can have returned the revision; nothing was
                written.
            RefusedIdentityError: if a message names another speaker; nothing was written.
        """
        return await observe(self.resources, identity, messages, revision=revision, several_speakers=several_speakers)

    @check_arguments
    async def form(self, identity: AnyIdentity, *, force: bool = True, retry: bool = False) -> list[FormationResult]:
        """Form the pending messages of the session, run after run until none is due.

        A last run that formed nothing has the reason: another run works on them (`leased`), they wait after a failure
        (`backoff`), or they are quarantined.

        Args:
            identity: the owner of the session.
            force: form messages before a due condition holds, and without the pause after a failure.
            retry: form only quarantined messages.

        Raises:
            ModelError: if the model failed, or a setting of the embedder is wrong; the messages stay pending, as after
                any error.
            ConcurrentChangeError: after 3 lost races with other runs.
            DatabaseUnavailableError: if the database cannot be reached in time.
            InvalidInputError: if the identity has no session.
        """
        await self.resources.background.finish(formation_name(identity))
        request: FormationInput = {"force": force, "retry": retry}
        # on the loop of the resources, to which the clients of the models belong
        outputs = await self._provide.run_async(partial(form_pending, self.resources, identity, request))
        return [FormationResult.from_output(output) for output in outputs]

    @check_arguments
    async def remember(
        self,
        identity: AnyIdentity,
        content: str,
        *,
        category: str | None = None,
        kind: ExplicitKind | Literal["procedure"] = "fact",
        steps: Sequence[str] = (),
        importance: int = 3,
        scope: ExplicitScope = "user",
        private: bool = False,
    ) -> Remembered:
        """Store a sentence or a procedure as a memory, or return the stored duplicate.

        Similar memories are listed (`near`) and stay: `correct` replaces one.

        Args:
            identity: identity of the run; its role limits the categories.
            content: one complete sentence in the third person, of at most 30 words for a fact; the title of a
                procedure.
            category: required for each kind but a procedure, which is `procedural`: one that the role reads and
                formation may choose from, such as `profile`.
            kind: `core` is part of every prompt, `procedure` is found by requests for its category, any other is
                found by a search.
            steps: the steps of a procedure, in their order.
            importance: 1 trivial to 5 vital; a procedure has 3.
            scope: `group` with one group in the identity, or `agent` if the identity teaches the agent. A private text,
                a personal category or contact data make it the user's own; the result has its `scope_key`, and the
                reason as `not_shared`.
            private: whether it is confidential, and so never shared; not for a procedure.

        Raises:
            CategoryRefusedError: if the role may not write into this category.
            InvalidInputError: if the content is not written as a memory has to be, a value cannot be used, or the
                identity has not one group for the scope `group`.
            EmbeddingError: if a setting of the embedder is wrong; nothing was written.
        """
        if kind == "procedure":
            if category is not None or private:
                raise InvalidInputError("category, private: a procedure has neither")
            procedure = {"title": content, "steps": steps, "scope": scope}
            procedure_request = validate(ProcedureRequest, procedure, strict=None)
            return await remember_procedure(self.resources, identity, procedure_request, TrustedCaller())
        if steps:
            raise InvalidInputError('steps: only a memory of kind="procedure" has steps')
        if category is None:
            checked_sentence(content, kind)  # its error comes first, as with a category
            raise InvalidInputError(refusals.no_category(self.resources.categories.writable(identity.role)))
        sharing = {"scope": scope, "private": private}
        request = {"content": content, "category": category, "kind": kind, "importance": importance, **sharing}
        remember_request = validate(RememberRequest, request, strict=None)
        return await remember(self.resources, identity, remember_request, TrustedCaller())

    @check_arguments
    async def correct(self, identity: AnyIdentity, id: AnyId, content: str) -> Corrected:
        """Replace a memory: it is closed with its date, and a new one in its place is found from then on.

        The new memory has the old one's kind, scope key, subject, category, importance and privacy. Both changes are
        one operation for `history.undo`. An active memory with the same text takes the place instead.

        Args:
            identity: identity of the run; its role limits the categories.
            id: the memory to correct.
            content: a text as for `remember`; for a procedure its title and, below it, a line for each step.

        Raises:
            InvalidInputError: if this identity's role has no such memory, or a value cannot be used.
            NotCorrectedError: if the memory is protected, closed, absorbed or a consolidation, or shared while the
                content may not be; or the session's daily limit of forgets and corrections
                (`forgets_per_session_and_day`) is reached.
            CategoryRefusedError: if the role has no allowlist, or may not write into this category.
            EmbeddingError: if a setting of the embedder is wrong; nothing was written.
            ConcurrentChangeError: if the memory was changed meanwhile; nothing was written.
        """
        return await correct(self.resources, identity, to_uuid(id), content, TrustedCaller())

    @check_arguments
    async def forget(self, identity: AnyIdentity, id: AnyId) -> Forgotten:
        """Soft-delete a memory of the identity's user or session; `history.undo` reverses it.

        Args:
            identity: identity of the run; its role limits the categories.
            id: the memory to forget.

        Raises:
            InvalidInputError: if this identity's role has no such memory, or the value is no id.
            NotForgottenError: if the memory is protected, shared, or a consolidation, or the session's daily limit of
                forgets and corrections (`forgets_per_session_and_day`) is reached.
            CategoryRefusedError: if the role has no allowlist.
        """
        memory_id = to_uuid(id)
        return Forgotten(id=memory_id, changed=await forget(self.resources, identity, memory_id, TrustedCaller()))

    @check_arguments
    async def refine(
        self, identity: AnyIdentity, scope_key: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> RefinementResult:
        """Refine the context memories of one scope key if they exceed their budget, or resume a broken-off refinement.

        The configured `agent` model, in the agent's persona, merges, shortens, deletes and protects memories with tools
        of this session only. Each call is an operation of its own; `history.undo_refinement` undoes all of them.

        Args:
            identity: identity of the run.
            scope_key: the memories to refine, such as `user:ana`; None for the agent's own.
            force: refine memories within their budget, too.
            dry_run: count the work, and change nothing.

        Raises:
            RefinementRunningError: if another refinement of the scope key is running; the message has its duration.
            RefinementOverError: if this run lost its lease to another run, which has resumed the refinement.
            ModelError: if the model failed; the calls so far stay, and the next `refine` resumes the refinement.
            CategoryRefusedError: if the identity's role does not read the always-in-context memories.
            InvalidInputError: if the scope key is none of the identity's.
        """
        key = scope_key or identity.scope_keys[0]  # the widest, the agent's
        request = {"scope_key": key, "force": force, "dry_run": dry_run}
        lease = Lease("refinement", key, uuid4())
        output = await run_leased(self.resources, self.graphs.refinement, request, identity, lease)
        return RefinementResult.from_output(cast(RefinementOutput, output))

    @check_arguments
    async def get(self, identity: AnyIdentity, id: AnyId) -> Memory:
        """Return one memory of the identity in any state.

        Args:
            identity: identity of the run; its role limits the categories, and the role `owner` reads all.
            id: the memory.

        Raises:
            UnknownMemoryError: if this identity's role has no such memory.
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if the value is no id.
        """
        return await get_memory(self.resources, identity, to_uuid(id))

    @check_arguments
    async def memories(
        self, identity: AnyIdentity, kinds: Sequence[Kind] = KINDS, *, limit: Limit = 1000, with_closed: bool = False
    ) -> list[Memory]:
        """Return the identity's memories, newest first.

        Args:
            identity: identity of the run; its role limits the categories, and the role `owner` reads all.
            kinds: only memories of these kinds.
            limit: maximum number of memories.
            with_closed: whether to include superseded and absorbed memories.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if a kind is unknown, or the limit is outside 1..100,000.
        """
        return await list_memories(self.resources, identity, kinds, limit=limit, with_closed=with_closed)

    @check_arguments
    async def update(
        self,
        identity: AnyIdentity,
        id: AnyId,
        *,
        pinned: bool | None = None,
        tags: Sequence[str] | None = None,
        importance: int | None = None,
        valid_until: Time | None = None,
    ) -> Memory:
        """Change values of a memory, but not its text; None leaves a value unchanged. `history.undo` reverses it.

        Args:
            identity: identity of the run; its role limits the categories.
            id: the memory to change.
            pinned: whether maintenance keeps the memory, however long it is not used.
            tags: all of its tags; an empty list removes them.
            importance: 1 trivial to 5 vital.
            valid_until: when it ceases to hold, such as the day of a plan; maintenance closes it then, unless pinned.

        Returns:
            The changed memory.

        Raises:
            InvalidInputError: if this identity's role has no such memory, there is no change, or a value cannot be
                used.
            NotUpdatedError: if the memory is protected or closed, or shared and the identity does not teach the agent.
            CategoryRefusedError: if the role has no allowlist.
            ConcurrentChangeError: if the memory was changed meanwhile; nothing was written.
        """
        request = {"pinned": pinned, "tags": tags, "importance": importance, "valid_until": valid_until}
        return await update(self.resources, identity, to_uuid(id), validate(UpdateRequest, request, strict=None))

    @check_arguments
    def middleware(
        self,
        role: HostId = "supervisor",
        *,
        search: SearchMode = "auto",
        budget_tokens: BudgetTokens | None = None,
        tools: bool = True,
        observe: bool = True,
        form: bool = True,
        several_speakers: bool = False,
    ) -> MemoryMiddleware:
        """Return memory for `langchain.agents.create_agent`: it recalls, brings the role's tools, and observes.

        Args:
            role: the agent's role; its allowlist applies, whatever role the identity has.
            search: as in `recall`.
            budget_tokens: as in `recall`.
            tools: False for a model that calls no tools; recall and formation work without them.
            observe: False for a subagent, whose user is another model.
            form: start the formation of due messages after a turn; False if another process forms.
            several_speakers: as in `observe`.

        Raises:
            InvalidInputError: if an argument cannot be used.
        """
        recall_options = RecallOptions(role=role, search=search, budget_tokens=budget_tokens)
        turn_options = TurnOptions(observe=observe, form=form, several_speakers=several_speakers)
        role_tools = self.tools(role) if tools else []
        return MemoryMiddleware(self.resources, role_tools, recall_options, turn_options)

    @check_arguments
    def tools(self, role: str = "supervisor") -> list[BaseTool]:
        """Return the tools of an agent in this role, for LangChain's `create_agent`, `ToolNode` or `bind_tools`.

        They take the identity from the context of the run that calls them, and act in this role.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if the role is no text.
        """
        return make_tools(self._provide, role, self.resources.categories)
