"""What may be remembered on purpose: the requests of the tools and methods, and what they answer."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from mnemic.state.formation import SimilarFact

#: Who may share it. Facts never belong to a session, and what is explicit shall outlive one.
ExplicitScope = Literal["user", "group", "agent"]

MAX_STEPS = 20
#: A step is one sentence, as a fact is.
MAX_STEP_CHARS = 280
MAX_TITLE_CHARS = 120


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _in_order(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("steps are a list of texts")
    return value


class RememberRequest(_Request):
    """One fact, or one commitment that is always in context."""

    content: Annotated[StrictStr, Field(min_length=1, max_length=4000)]
    category: Annotated[StrictStr, Field(max_length=128)]
    kind: Literal["fact", "core"] = "fact"
    importance: Annotated[int, Field(ge=1, le=5, strict=True)] = 3
    scope: ExplicitScope = "user"
    #: Said in confidence: it is never shared.
    private: StrictBool = False


class ProcedureRequest(_Request):
    """How something is done, step by step."""

    title: Annotated[StrictStr, Field(min_length=1, max_length=MAX_TITLE_CHARS)]
    steps: Annotated[
        tuple[Annotated[StrictStr, Field(min_length=1, max_length=MAX_STEP_CHARS)], ...],
        Field(min_length=1, max_length=MAX_STEPS),
        BeforeValidator(_in_order),
    ]
    scope: ExplicitScope = "user"


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """What became of an explicit write."""

    #: The memory that says it now. None: the one that says it already is of a category that the role may not read.
    id: UUID | None
    #: Who shares it; of one that was known already, who would have.
    scope_key: str
    #: A living memory says the same: nothing was written.
    known: bool = False
    #: Living facts so near that it may replace one of them; nearest first.
    near: tuple[SimilarFact, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """Its figures as plain JSON, without any words."""
        return {"id": str(self.id) if self.id else None, "scope_key": self.scope_key, "known": self.known}
