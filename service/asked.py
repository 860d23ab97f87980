"""What `Mnemic`'s own methods may be asked: types and bounds of their arguments. The graphs check theirs themselves."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import (
    AwareDatetime,
    Field,
    StrictBool,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from typing_extensions import TypedDict

from mnemic.operations.messages.turn import Asked
from mnemic.state.explicit import ProcedureRequest, RememberRequest
from mnemic.state.identity import HostId
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Kind
from mnemic.storage.erasure import Progress

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
#: Operations that may be named to be undone at once; of a session's there may be more.
MAX_OPERATIONS = 1000


class _Listing(TypedDict):
    kinds: list[Kind] | tuple[Kind, ...]
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)]
    with_closed: bool


class _Operations(TypedDict):
    session_id: HostId | None
    since: AwareDatetime | None
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)]


class _SessionSince(TypedDict):
    session_id: HostId
    since: AwareDatetime


class _OperationIds(TypedDict):
    op_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_OPERATIONS)]


class _MemoryIds(TypedDict):
    memory_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_LISTED)]


def _a_moment(given: object, read: ValidatorFunctionWrapHandler) -> object:
    try:
        return read(given)
    except ValidationError:
        raise ValueError("a seq of the history, or a datetime with its zone") from None


class _Past(TypedDict):
    scope_key: str
    #: Never text or a fraction, which could be meant as either.
    moment: Annotated[Annotated[int, Field(ge=0, lt=2**63)] | AwareDatetime, WrapValidator(_a_moment)]


@dataclass(frozen=True, kw_only=True)
class Rolling:
    """How a rollback is to be done."""

    cascade: StrictBool = False
    skip_erased: StrictBool
    dry_run: StrictBool


class _ThreadIds(TypedDict):
    thread_ids: Annotated[list[str] | tuple[str, ...], Field(min_length=1, max_length=MAX_LISTED)]


class _Refining(TypedDict):
    #: None: the agent's own.
    scope_key: str | None
    force: StrictBool
    dry_run: StrictBool


class _Refinements(TypedDict):
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)]


QUERY = TypeAdapter(MemoryQuery)
REMEMBER = TypeAdapter(RememberRequest)
PROCEDURE = TypeAdapter(ProcedureRequest)
LISTING = TypeAdapter(_Listing)
SCOPE_KEY = TypeAdapter(str)
#: A seq, as Postgres counts them.
REVISION: TypeAdapter[int | None] = TypeAdapter(Annotated[int, Field(ge=0, lt=2**63)] | None)
ROLE = TypeAdapter(str)
AGENT_ID = TypeAdapter(HostId)
#: As it is, or its text; of a memory or an operation.
MEMORY_ID = TypeAdapter(UUID)
MEMORY_IDS = TypeAdapter(_MemoryIds)
OPERATION_IDS = TypeAdapter(_OperationIds)
#: A scope key at a moment.
PAST = TypeAdapter(_Past)
OPERATIONS = TypeAdapter(_Operations)
SESSION_SINCE = TypeAdapter(_SessionSince)
ASKED = TypeAdapter(Asked)
#: A channel of a host's state.
KEY = TypeAdapter(str)
SWITCH = TypeAdapter(bool)
PROGRESS: TypeAdapter[Progress | None] = TypeAdapter(Progress | None)
ROLLING = TypeAdapter(Rolling)
THREAD_ID = TypeAdapter(HostId)
THREAD_IDS = TypeAdapter(_ThreadIds)
REFINING = TypeAdapter(_Refining)
REFINEMENTS = TypeAdapter(_Refinements)
