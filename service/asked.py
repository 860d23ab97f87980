"""What `Mnemic`'s own methods may be asked: types and bounds of their arguments. The graphs check theirs themselves."""

from typing import Annotated
from uuid import UUID

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from mnemic.service.turn import Asked
from mnemic.state.explicit import ProcedureRequest, RememberRequest
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Kind

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


class _Listing(TypedDict):
    kinds: list[Kind] | tuple[Kind, ...]
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)]
    with_closed: bool


QUERY = TypeAdapter(MemoryQuery)
REMEMBER = TypeAdapter(RememberRequest)
PROCEDURE = TypeAdapter(ProcedureRequest)
LISTING = TypeAdapter(_Listing)
SCOPE_KEY = TypeAdapter(str)
#: A seq, as Postgres counts them.
REVISION: TypeAdapter[int | None] = TypeAdapter(Annotated[int, Field(ge=0, lt=2**63)] | None)
ROLE = TypeAdapter(str)
#: As it is, or its text.
MEMORY_ID = TypeAdapter(UUID)
ASKED = TypeAdapter(Asked)
#: A channel of a host's state.
KEY = TypeAdapter(str)
SWITCH = TypeAdapter(bool)
