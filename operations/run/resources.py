"""What the nodes work with, handed to their factories."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from mnemic.models.chat import ChatModels
from mnemic.models.embedders import Embedder
from mnemic.operations.recall.access_tracker import Uses
from mnemic.operations.run.background import Background
from mnemic.policy.categories import Categories
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.database import Database


@dataclass(frozen=True)
class Resources:
    """Settings, categories, database and models of one process."""

    settings: Settings
    categories: Categories
    database: Database
    models: ChatModels
    embedder: Embedder
    background: Background = field(default_factory=Background)
    uses: Uses = field(default_factory=Uses)

    def note_uses(self, identity: Identity, memory_ids: Iterable[UUID]) -> None:
        """Notes what a recall returned; where much waits, it is written in the background."""
        if self.uses.note(identity, memory_ids):
            self.background.begin("uses", lambda: self.uses.write_all(self.database))


#: Graphs are compiled before anything is opened; a node asks for the resources when it runs.
Provider = Callable[[], Awaitable[Resources]]
