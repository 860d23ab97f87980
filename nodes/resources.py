"""What the nodes work with, handed to their factories."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mnemic.models.chat import ChatModels
from mnemic.models.embedders import Embedder
from mnemic.nodes.background import Background
from mnemic.nodes.uses import Uses
from mnemic.policy.categories import Categories
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


#: Graphs are compiled before anything is opened; a node asks for the resources when it runs.
Provider = Callable[[], Awaitable[Resources]]
