"""Requests and results of explicit writes."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from mnemic.state.checking import WHOLE_CHARACTERS, Time
from mnemic.state.formation import NotShared, SimilarFact
from mnemic.state.kinds import ExplicitKind

#: Scopes of explicit writes, which outlive a session.
ExplicitScope = Literal["user", "group", "agent"]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


def _in_order(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of texts")
    return value


class RememberRequest(_Request):
    """One memory in words, of an explicit kind."""

    content: Annotated[StrictStr, Field(min_length=1, max_length=4000), WHOLE_CHARACTERS]
    category: Annotated[StrictStr, Field(max_length=128)]
    kind: ExplicitKind = "fact"
    importance: Annotated[int, Field(ge=1, le=5, strict=True)] = 3
    scope: ExplicitScope = "user"
    #: Confidential, and so never shared.
    private: StrictBool = False


class UpdateRequest(_Request):
    """New values of a memory, but not of its text. None leaves a value as it is."""

    pinned: StrictBool | None = None
    #: All of its tags; an empty list removes them.
    tags: (
        Annotated[
            tuple[Annotated[StrictStr, Field(min_length=1, max_length=60), WHOLE_CHARACTERS], ...],
            Field(max_length=20),
            BeforeValidator(_in_order),
        ]
        | None
    ) = None
    importance: Annotated[int, Field(ge=1, le=5, strict=True)] | None = None
    #: Time at which it ceases to hold, such as the day of a plan; maintenance closes it then.
    valid_until: Time | None = None


class ProcedureRequest(_Request):
    """How something is done, step by step."""

    title: Annotated[StrictStr, Field(min_length=1, max_length=120), WHOLE_CHARACTERS]
    #: A step is one sentence, as long as a fact may be.
    steps: Annotated[
        tuple[Annotated[StrictStr, Field(min_length=1, max_length=280), WHOLE_CHARACTERS], ...],
        Field(min_length=1, max_length=20),
        BeforeValidator(_in_order),
    ]
    scope: ExplicitScope = "user"


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """Result of an explicit write.

    Attributes:
        id: id of the memory with this text; None if that is of a category that the role may not read.
        scope_key: scope key of the memory, or of the one that would have been stored.
        known: whether an active memory has the same text, so that nothing was written.
        not_shared: reason why it is the user's own although another scope was requested; None if it has the requested
            scope.
        near: active facts that it may replace, nearest first.
    """

    id: UUID | None
    scope_key: str
    known: bool = False
    not_shared: NotShared | None = None
    near: tuple[SimilarFact, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """Return the result as plain JSON, without texts."""
        return {"id": self.id and str(self.id), "scope_key": self.scope_key, "known": self.known}


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Result of a correction.

    Attributes:
        id: id of the memory with the new text; None if that is of a category that the role may not read. It is the
            corrected memory itself if that has this text already, so that nothing was written.
        old_id: id of the corrected memory.
        scope_key: scope key of the memory.
        known: whether an active memory had the text already; another one took the place of the corrected memory.
    """

    id: UUID | None
    old_id: UUID
    scope_key: str
    known: bool = False

    def as_row(self) -> dict[str, Any]:
        """Return the result as plain JSON, without texts."""
        new_id = self.id and str(self.id)
        return {"id": new_id, "old_id": str(self.old_id), "scope_key": self.scope_key, "known": self.known}
