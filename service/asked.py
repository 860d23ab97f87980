"""Types and bounds of arguments that are not yet checked by `check_arguments`; it goes with the last of them."""

from typing import Annotated

from pydantic import Field, StrictBool, TypeAdapter
from typing_extensions import TypedDict

from mnemic.state.checking import MAX_LISTED


class _Refining(TypedDict):
    #: None: the agent's own.
    scope_key: str | None
    force: StrictBool
    dry_run: StrictBool


class _Refinements(TypedDict):
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)]


SWITCH = TypeAdapter(bool)
REFINING = TypeAdapter(_Refining)
REFINEMENTS = TypeAdapter(_Refinements)
