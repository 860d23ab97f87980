"""Resources of a process: settings, database, models, and the memories that recalls returned.

`Mnemic` opens them, or the environment does for graphs that a server loads by name.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from typing import Final, Self
from uuid import UUID
from weakref import WeakKeyDictionary

from mnemic.memory.runtime.background import Background, background
from mnemic.memory.runtime.categories import Categories, load_categories
from mnemic.memory.runtime.events import EventLog, Outcome
from mnemic.memory.runtime.identity import log_ids
from mnemic.memory.runtime.requests import Phrase, load_requests
from mnemic.models.chat import ChatModels
from mnemic.models.embedders import Embedder, make_embedder, make_previous_embedder
from mnemic.models.missing import warn_of_missing_models
from mnemic.models.overrides import NO_OVERRIDES, ModelOverrides
from mnemic.state.errors import BlockedLoopError, MnemicError
from mnemic.state.events import EventNode
from mnemic.state.identity import Identity
from mnemic.state.records import SearchResult
from mnemic.state.settings import Settings
from mnemic.state.times import local_time, to_zone
from mnemic.state.worker_threads import in_thread
from mnemic.storage import memories, revisions
from mnemic.storage.database import Database
from mnemic.storage.home_loop import Call, HomeLoop, Result

_LOG = logging.getLogger("mnemic")
#: Maximum number of memories of one day that a process remembers, some 20 MB; above it, the list starts again.
MAX_NOTED: Final = 100_000
#: Number of sessions with unwritten uses above which all are written: the next observe of a session may never come.
MAX_WAITING: Final = 100

#: Resources opened from the environment, and the stack that closes them.
_Opened = tuple["Resources", AsyncExitStack]
_opened: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[_Opened]] = WeakKeyDictionary()


def today(zone: tzinfo = UTC) -> date:
    """Return the current day in a time zone."""
    return datetime.now(zone).date()


class AccessTracker:
    """Memories that recalls returned, each once per day and session, or user if there is no session.

    It is held in this process, and only counts are lost with it.
    """

    def __init__(self, *, today: Callable[[], date] = today) -> None:
        self._today = today
        self._day = today()
        #: Uses of today: agent, session or user, memory.
        self._counted: set[tuple[str, str | None, UUID]] = set()
        #: Uses to write, by the scope keys of the identity.
        self._waiting: dict[tuple[str, ...], tuple[Identity, set[UUID]]] = {}

    def note(self, identity: Identity, memory_ids: Iterable[UUID]) -> bool:
        """Note that a recall returned these memories to this identity; return whether it is time to write."""
        today = self._today()
        if today != self._day or len(self._counted) >= MAX_NOTED:
            self._day = today
            self._counted.clear()
        if sum(len(waiting) for _, waiting in self._waiting.values()) >= MAX_NOTED:
            self._waiting.clear()  # the database has been away for long
        place = identity.session_id or identity.user_id
        for memory_id in memory_ids:
            use = (identity.agent_id, place, memory_id)
            if use not in self._counted:
                self._counted.add(use)
                _, waiting = self._waiting.setdefault(identity.scope_keys, (identity, set()))
                waiting.add(memory_id)
        return len(self._waiting) >= MAX_WAITING

    def take(self, identity: Identity) -> set[UUID]:
        """Remove and return the unwritten uses of this identity."""
        _, waiting = self._waiting.pop(identity.scope_keys, (identity, set()))
        return waiting

    async def write(self, database: Database, *identities: Identity) -> None:
        """Write the uses of these identities, or of all, each in a transaction.

        A failure is logged and ends the writing, since the database is away then. It costs only counts.
        """
        for identity in identities or [waiting for waiting, _ in self._waiting.values()]:
            used = self.take(identity)
            if not used:
                continue
            try:
                await database.write(identity, partial(memories.count_uses, memory_ids=used))
            except MnemicError as error:
                text = "Could not count %d uses of recalled memories: %s"
                _LOG.warning(text, len(used), error, extra=log_ids(identity))
                return


class ShownMemories:
    """Ids of the memories that each reader has seen in a session, until its next acknowledged revision stores them.

    It is held in this process; if it is lost, the removal of such a memory is not announced to the reader.
    """

    def __init__(self) -> None:
        #: By agent, session and reader.
        self._waiting: dict[tuple[str, str | None, str], set[UUID]] = {}
        self._noted = 0

    def note(self, identity: Identity, memory_ids: Collection[UUID]) -> None:
        """Note that the identity's session has shown these memories; without a session nothing is announced."""
        if identity.session_id is None:
            return
        self._noted += len(memory_ids)
        if self._noted > MAX_NOTED:  # so many ids may wait in sessions that never end a turn
            self._waiting.clear()
            self._noted = len(memory_ids)
        self._waiting.setdefault(self._place(identity), set()).update(memory_ids)

    def read(self, identity: Identity) -> frozenset[UUID]:
        """Return the memories that wait to be stored."""
        return frozenset(self._waiting.get(self._place(identity), ()))

    def forget(self, identity: Identity) -> None:
        """Drop the memories of the identity's session, which are stored."""
        self._waiting.pop(self._place(identity), None)

    @staticmethod
    def _place(identity: Identity) -> tuple[str, str | None, str]:
        return identity.agent_id, identity.session_id, revisions.reader_name(identity)


@dataclass(frozen=True)
class Resources:
    """Settings, database and models of one process."""

    settings: Settings
    categories: Categories
    #: Phrases that request a recall.
    requests: Sequence[Phrase]
    database: Database
    models: ChatModels
    embedder: Embedder
    #: Former embedder, for agents whose vectors are being moved to the other one.
    previous_embedder: Embedder | None = None
    background: Background = field(default_factory=Background)
    uses: AccessTracker = field(default_factory=AccessTracker)
    shown: ShownMemories = field(default_factory=ShownMemories)
    events: EventLog = field(default_factory=EventLog)
    #: Embedder with a warning in the log that some vectors are of other embedders.
    warned: set[str] = field(default_factory=set)
    #: Day of the last warning in the log that the tokens of a tenant are used up, by tenant.
    budget_warnings: dict[str, date] = field(default_factory=dict)
    #: Current day in a time zone, as prompts show it.
    today: Callable[[tzinfo], date] = today

    def zone_of(self, identity: Identity) -> tzinfo:
        """Return the time zone of the person an identity names, or that of the settings."""
        return to_zone(identity.timezone or self.settings.timezone)

    def now(self, identity: Identity) -> datetime:
        """Return the current time at the offset of the identity's time zone."""
        zone = self.zone_of(identity)
        return local_time(datetime.now(zone), zone)

    def with_embedder(self, name: str | None) -> "Resources":
        """Return these resources with the previous embedder in use if it has this name, else unchanged."""
        previous = self.previous_embedder
        # the name of an endpoint's model lacks the length of its vectors before it has made one
        if previous is None or name is None or not f"{name}:".startswith(f"{previous.name}:"):
            return self
        return replace(self, embedder=previous)

    def note_uses(self, identity: Identity, results: Iterable[SearchResult]) -> None:
        """Note the memories that a recall returned; if many uses are unwritten, write them in the background."""
        if self.uses.note(identity, [result.id for result in results if result.kind != "message"]):
            self.background.begin("uses", lambda: self.uses.write(self.database), log_ids(identity))

    @contextmanager
    def recorded(self, identity: Identity, node: EventNode, op: str) -> Iterator[Outcome]:
        """Collect an event about the block, as `EventLog.timed`, and store the events if a batch has come together."""
        try:
            with self.events.timed(identity, node, op) as outcome:
                yield outcome
        finally:
            self.write_events()

    def write_events(self) -> None:
        """Begin to store the collected events in the background, if a batch has come together."""
        if self.events.is_due:
            self.background.begin("events", lambda: self.events.write(self.database))


@dataclass(frozen=True)
class Provider:
    """Access to resources that may not be open yet: graphs are compiled first, and a node asks when it runs."""

    _open: Callable[[], Awaitable[Resources]]
    #: The event loop of open resources; None if each event loop opens its own.
    _home: HomeLoop | None = None

    @classmethod
    def of(cls, resources: Resources) -> Self:
        """Return the provider of open resources."""

        async def opened() -> Resources:
            return resources

        return cls(opened, resources.database.home)

    async def __call__(self) -> Resources:
        """Return the resources; open them if necessary."""
        return await self._open()

    def run(self, call: Call[Result]) -> Result:
        """Run a call on the loop of the resources while the caller's thread waits, and return its result.

        Raises:
            BlockedLoopError: if that loop is the caller's, or waits for it, or does not exist yet.
            ClosedError, ForkedProcessError: if the resources are closed, or of another process.
        """
        if self._home is None:
            raise BlockedLoopError
        return self._home.run(call)

    async def run_async(self, call: Call[Result]) -> Result:
        """Await a call on the loop of the resources, from any loop, and return its result.

        Raises:
            ClosedError, ForkedProcessError: if the resources are closed, or of another process.
        """
        if self._home is None:
            return await call()
        return await self._home.run_async(call)


@asynccontextmanager
async def open_resources(settings: Settings, given: ModelOverrides = NO_OVERRIDES) -> AsyncIterator[Resources]:
    """Open database, models and embedder until the block ends, which writes the unwritten uses and events.

    Args:
        settings: Settings of the process.
        given: Models and embedder of the host, which replace those of the settings.

    Raises:
        MnemicError: if one of them is not available; the message has the remedy.
    """
    from mnemic.storage.opening import open_database  # for opening alone, 40 ms

    models = ChatModels(settings, given.models)
    await in_thread(models.require_packages)
    categories = await in_thread(load_categories, settings.categories_file)
    requests = await in_thread(load_requests, settings.recall_requests_file)
    embedder = await in_thread(make_embedder, settings, given.embeddings)
    previous = await in_thread(make_previous_embedder, settings)
    async with open_database(settings) as database, background() as work:
        resources = Resources(settings, categories, requests, database, models, embedder, previous, work)
        warn_of_missing_models(settings)
        try:
            yield resources
        finally:
            await resources.uses.write(database)
            await resources.events.write(database)


async def from_environment() -> Resources:
    """Return the resources of the environment's settings, opened at first use, once per event loop."""
    loop = asyncio.get_running_loop()
    task = _opened.get(loop)
    if task is None or (task.done() and (task.cancelled() or task.exception())):
        task = _opened[loop] = loop.create_task(_open_from_environment())
    resources, _ = await asyncio.shield(task)
    return resources


#: Resources of the environment's settings.
ENVIRONMENT: Final = Provider(from_environment)


async def close_environment() -> None:
    """Close the resources that this event loop opened from the environment, after the work in the background."""
    if task := _opened.pop(asyncio.get_running_loop(), None):
        _, stack = await task
        await stack.aclose()


async def _open_from_environment() -> _Opened:
    settings, stack = await in_thread(Settings), AsyncExitStack()
    return await stack.enter_async_context(open_resources(settings)), stack
