"""What a host may set for a scope key."""

from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mnemic.policy.text.hygiene import clean_text, require_text
from mnemic.state.checking import first_problem
from mnemic.state.errors import InvalidInputError
from mnemic.state.records import ScopeSettings

MAX_NUMBER = 100_000
#: A name stands in one line among others; the ids it stands for may be as long.
MAX_NAME_BYTES = 128


def _name(text: str) -> str:
    return require_text(" ".join(clean_text(text).split()), what="it", max_bytes=MAX_NAME_BYTES)


_Guidance = Annotated[str, AfterValidator(partial(require_text, what="it"))]
_Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


class _Overrides(BaseModel):
    model_config = ConfigDict(strict=True, from_attributes=True, hide_input_in_errors=True)

    scope_key: str
    name: Annotated[str, AfterValidator(_name)] | None
    extraction_guidance: _Guidance | None
    consolidation_guidance: _Guidance | None
    is_active: bool
    threshold: _Number | None
    word_limit: _Number | None


def checked_overrides(overrides: object) -> ScopeSettings:
    """What a host sets for a scope key, with clean texts and possible numbers.

    Raises:
        InvalidInputError: an empty or too long text, a value of another type, or a number outside 1..100,000.
    """
    if not isinstance(overrides, ScopeSettings):
        raise InvalidInputError("what a scope key overrides is given as ScopeSettings")
    try:
        return replace(overrides, **_Overrides.model_validate(overrides).model_dump())
    except ValidationError as error:
        raise InvalidInputError(first_problem(error)) from None
