"""What `Mnemic`'s own methods may be asked: types and bounds of their arguments. The graphs check theirs themselves."""

from typing import Annotated
from uuid import UUID

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from mnemic.state.records import Kind, SearchType

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


class _Search(TypedDict):
    question: str
    limit: Annotated[int, Field(ge=1, le=100)]
    search_type: SearchType


class _Listing(TypedDict):
    kinds: list[Kind] | tuple[Kind, ...]
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)]
    with_closed: bool


SEARCH = TypeAdapter(_Search)
LISTING = TypeAdapter(_Listing)
SCOPE_KEY = TypeAdapter(str)
#: As it is, or its text.
MEMORY_ID = TypeAdapter(UUID)
