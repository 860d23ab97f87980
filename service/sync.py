"""`Mnemic` for programs without an event loop: it runs on a loop in a thread of its own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from mnemic.service.admin import Admin
from mnemic.service.governance.administration import Administration
from mnemic.service.governance.history import BlindHistory, History
from mnemic.service.governance.privacy import Privacy
from mnemic.service.hosts.threads import Threads
from mnemic.service.memory import Mnemic
from mnemic.service.opening import require_opened
from mnemic.service.usage import UsageReports
from mnemic.state.settings import Settings
from mnemic.storage.home_loop import HomeLoop

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Target = TypeVar("Target")


class _OnHomeLoop(Generic[Target]):
    """Methods of an asynchronous object that wait for its event loop, in any thread."""

    def __init__(self, target: Target, home: HomeLoop) -> None:
        self._target = target
        self._home = home


def blocking(
    method: Callable[Concatenate[Any, Parameters], Awaitable[Result]],
) -> Callable[Concatenate[_OnHomeLoop[Any], Parameters], Result]:
    """Return a method that waits for an asynchronous one."""

    @wraps(method)
    def call(self: _OnHomeLoop[Any], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        async def awaited() -> Result:
            return await method(self._target, *args, **kwargs)

        return self._home.run(awaited)

    return call


def iterating(
    method: Callable[Concatenate[Any, Parameters], AsyncIterator[Result]],
) -> Callable[Concatenate[_OnHomeLoop[Any], Parameters], Iterator[Result]]:
    """Return a method that iterates over the items of an asynchronous one."""

    @wraps(method)
    def call(self: _OnHomeLoop[Any], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Iterator[Result]:
        return _items(self._home, method(self._target, *args, **kwargs))

    return call


def _items(home: HomeLoop, items: AsyncIterator[Result]) -> Iterator[Result]:
    async def following() -> list[Result]:
        async for item in items:
            return [item]
        return []

    while item := home.run(following):
        yield item[0]


def direct(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[_OnHomeLoop[Any], Parameters], Result]:
    """Return a method that calls one that waits for nothing."""

    @wraps(method)
    def call(self: _OnHomeLoop[Any], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return method(self._target, *args, **kwargs)

    return call


class SyncHistory(_OnHomeLoop[History]):
    """The history of memories for the person concerned, with contents."""

    operations = blocking(History.operations)
    undo = blocking(History.undo)
    undo_session = blocking(History.undo_session)
    undo_refinement = blocking(History.undo_refinement)
    undo_run = blocking(History.undo_run)
    restore = blocking(History.restore)
    as_of = blocking(History.as_of)
    events = blocking(History.events)
    updates = blocking(History.updates)


class SyncThreads(_OnHomeLoop[Threads]):
    """Threads of an agent. Each belongs to one user, or to no user, and is invisible to all others."""

    checkpointer = direct(Threads.checkpointer)
    config = direct(Threads.config)
    list = blocking(Threads.list)
    copy = blocking(Threads.copy)
    prune = blocking(Threads.prune)
    delete = blocking(Threads.delete)


class SyncPrivacy(_OnHomeLoop[Privacy]):
    """The rights of a person over their memories and messages."""

    messages = blocking(Privacy.messages)
    count_messages = blocking(Privacy.count_messages)
    shared = blocking(Privacy.shared)
    unshare = blocking(Privacy.unshare)
    erase = blocking(Privacy.erase)
    erase_person = blocking(Privacy.erase_person)
    export_audit = iterating(Privacy.export_audit)


class SyncAdmin(_OnHomeLoop[Admin]):
    """Settings of agents and scope keys, and the work on memories outside a conversation."""

    describe = direct(Admin.describe)
    pending_requests = direct(Admin.pending_requests)
    configure_agent = blocking(Admin.configure_agent)
    agent_settings = blocking(Admin.agent_settings)
    assign_tenant = blocking(Admin.assign_tenant)
    configure_scope = blocking(Admin.configure_scope)
    scope_settings = blocking(Admin.scope_settings)
    form_later = blocking(Admin.form_later)
    consolidate = blocking(Admin.consolidate)
    maintain = blocking(Admin.maintain)
    maintenance_runs = blocking(Admin.maintenance_runs)
    refinements = blocking(Admin.refinements)
    embed_pending = blocking(Admin.embed_pending)
    reembed = blocking(Admin.reembed)


class SyncUsageReports(_OnHomeLoop[UsageReports]):
    """Tokens and counts over time of an agent, or of all agents of a tenant."""

    tokens = blocking(UsageReports.tokens)
    stats = blocking(UsageReports.stats)
    tenant_stats = blocking(UsageReports.tenant_stats)


class SyncMnemic(_OnHomeLoop[Mnemic]):
    """Long-term memory for agents. Open one with `with Mnemic.open_sync() as memory:`.

    It has the methods and namespaces of `Mnemic`, without `await`; any number of threads may call them at once.

    Attributes:
        history: operations, their rollback, and past states.
        threads: threads of LangGraph.
        privacy: sharing, export and erasure for the person concerned.
        admin: settings of agents and scope keys, and the work on memories outside a conversation.
        usage: tokens and counts over time.
        graphs: the compiled graphs, for a graph of your own.
        nodes: nodes for a host's own graph.
    """

    @require_opened(Mnemic)
    def __init__(self, memory: Mnemic) -> None:
        home = memory.resources.database.home
        super().__init__(memory, home)
        self.graphs = memory.graphs
        self.nodes = memory.nodes
        self.history = SyncHistory(memory.history, home)
        self.threads = SyncThreads(memory.threads, home)
        self.privacy = SyncPrivacy(memory.privacy, home)
        self.admin = SyncAdmin(memory.admin, home)
        self.usage = SyncUsageReports(memory.usage, home)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._target.settings

    recall = blocking(Mnemic.recall)
    query = blocking(Mnemic.query)
    observe = blocking(Mnemic.observe)
    form = blocking(Mnemic.form)
    remember = blocking(Mnemic.remember)
    correct = blocking(Mnemic.correct)
    forget = blocking(Mnemic.forget)
    refine = blocking(Mnemic.refine)
    get = blocking(Mnemic.get)
    memories = blocking(Mnemic.memories)
    update = blocking(Mnemic.update)
    middleware = direct(Mnemic.middleware)
    tools = direct(Mnemic.tools)


class SyncBlindHistory(_OnHomeLoop[BlindHistory]):
    """The history of an agent's memories for an administrator, without contents."""

    operations = blocking(BlindHistory.operations)
    undo = blocking(BlindHistory.undo)
    undo_session = blocking(BlindHistory.undo_session)
    undo_refinement = blocking(BlindHistory.undo_refinement)
    undo_run = blocking(BlindHistory.undo_run)
    restore = blocking(BlindHistory.restore)
    as_of = blocking(BlindHistory.as_of)


class SyncAdministration(_OnHomeLoop[Administration]):
    """Governance of any agent of a database. Open one with `with Administration.open_sync() as administration:`.

    Attributes:
        history: operations, their rollback, and past states.
    """

    @require_opened(Administration)
    def __init__(self, administration: Administration) -> None:
        home = administration._database.home
        super().__init__(administration, home)
        self.history = SyncBlindHistory(administration.history, home)

    @property
    def purges(self) -> bool:
        """Whether the setting `retention_purge_after_days` is on, as `purge` needs it."""
        return self._target.purges

    refinements = blocking(Administration.refinements)
    unshare = blocking(Administration.unshare)
    verify = blocking(Administration.verify)
    anchor = blocking(Administration.anchor)
    protect = blocking(Administration.protect)
    unprotect = blocking(Administration.unprotect)
    forget_messages = blocking(Administration.forget_messages)
    purge = blocking(Administration.purge)
