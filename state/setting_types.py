"""What kinds of values settings have, and what somebody reads whose value does not fit."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, Field, SecretStr, ValidationError

from mnemic.state.checking import first_problem
from mnemic.state.errors import ConfigurationError

Value = TypeVar("Value")

#: Of the environment's variables.
PREFIX: Final = "MNEMIC_"
#: Characters of a key.
MIN_SECRET: Final = 16
_OWN: Final = "an agent may have its own"
#: A setting that one agent may override.
Own = Annotated[Value, _OWN]
#: Postgres' integers end there, and no number of this library means anything beyond.
PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
#: A day at most: Postgres' time limits are milliseconds in such an integer.
Seconds = Annotated[float, Field(gt=0, le=86_400)]


def _long_enough(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < MIN_SECRET:
        raise ValueError(f"is a secret of at least {MIN_SECRET} characters")
    return secret


#: What signatures are made with.
Key = Annotated[SecretStr, AfterValidator(_long_enough)]


def own_settings(settings: type[BaseModel]) -> frozenset[str]:
    """The names of the settings that one agent may override."""
    return frozenset(name for name, field in settings.model_fields.items() if _OWN in field.metadata)


@contextmanager
def typed_errors(variables: Collection[str] = ()) -> Iterator[None]:
    """Of settings that came from the environment their variables are named.

    Raises:
        ConfigurationError: in the place of a ValidationError.
    """
    try:
        yield
    except ValidationError as error:
        name, colon, reason = first_problem(error).partition(": ")
        raise ConfigurationError(f"settings do not fit: {named_setting(name, variables)}{colon}{reason}") from None


def named_setting(setting: str, variables: Collection[str]) -> str:
    """A setting by its variable, where it came from there."""
    return f"{PREFIX}{setting.upper()}" if setting in variables else setting
