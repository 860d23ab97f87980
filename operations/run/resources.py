"""What the nodes work with: opened by `Mnemic`, or from the environment for graphs that a server loads by name."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID
from weakref import WeakKeyDictionary

from mnemic.models.chat import ChatModels
from mnemic.models.embedders import Embedder, make_embedder
from mnemic.operations.recall.access_tracker import AccessTracker
from mnemic.operations.run.event_loop import Background, background
from mnemic.policy.categories import Categories, load_categories
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.opening import open_database

_opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task["Resources"]] = WeakKeyDictionary()
#: Keeps what was opened from the environment open until it is closed, or as long as the process lives.
_open: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncExitStack] = WeakKeyDictionary()


@dataclass(frozen=True)
class Resources:
    """Settings, categories, database and models of one process."""

    settings: Settings
    categories: Categories
    database: Database
    models: ChatModels
    embedder: Embedder
    background: Background = field(default_factory=Background)
    uses: AccessTracker = field(default_factory=AccessTracker)

    def note_uses(self, identity: Identity, memory_ids: Iterable[UUID]) -> None:
        """Notes what a recall returned; where much waits, it is written in the background."""
        if self.uses.note(identity, memory_ids):
            self.background.begin("uses", lambda: self.uses.write_all(self.database))


#: Graphs are compiled before anything is opened; a node asks for the resources when it runs.
Provider = Callable[[], Awaitable[Resources]]


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncIterator[Resources]:
    """Database, models and embedder of these settings, until the block ends.

    Raises:
        MnemicError: one of them cannot be had; the message says what to do.
    """
    models = ChatModels(settings)
    categories = await asyncio.to_thread(load_categories, settings.categories_file)
    embedder = await asyncio.to_thread(make_embedder, settings)
    async with open_database(settings) as database, background() as work:
        yield Resources(
            settings=settings,
            categories=categories,
            database=database,
            models=models,
            embedder=embedder,
            background=work,
        )


async def from_environment() -> Resources:
    """The resources the environment's settings name, opened on first use, once per event loop."""
    loop = asyncio.get_running_loop()
    task = _opening.get(loop)
    if task is None or (task.done() and (task.cancelled() or task.exception())):
        task = _opening[loop] = loop.create_task(_open_from_environment())
    return await asyncio.shield(task)


async def close_environment() -> None:
    """Closes what this event loop opened from the environment, once the work in the background is done."""
    loop = asyncio.get_running_loop()
    _opening.pop(loop, None)
    if stack := _open.pop(loop, None):
        await stack.aclose()


async def _open_from_environment() -> Resources:
    settings = await asyncio.to_thread(Settings)
    async with AsyncExitStack() as stack:
        resources = await stack.enter_async_context(open_resources(settings))
        stack.push_async_callback(resources.uses.write_all, resources.database)
        _open[asyncio.get_running_loop()] = stack.pop_all()
    return resources
