"""One message as hosts and files have it, checked: a mapping or a LangChain message, made fields with known types."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictInt,
    StrictStr,
    ValidationError,
)

from mnemic.state.checking import first_problem, validate
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import HostId

HostMessage = BaseMessage | Mapping[str, Any]

#: Beyond these a time is a mistake, and calendars end soon after.
_YEARS = range(1900, 2200)
#: E-mail's message ids, the longest in use, have at most 998 characters.
_MAX_ID_CHARS = 1000
_LANGCHAIN_ROLES: dict[type[BaseMessage], str] = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}


def _plain(text: str) -> str:
    """The string itself, without what a subclass makes of its methods."""
    return str.__str__(text)


def _words_alone(part: dict[str, Any]) -> dict[str, Any]:
    """The text of a part; one without is a picture, a tool call, or a model's reasoning."""
    text = part.get("text")
    if not isinstance(text, str | None):
        raise ValueError("the text of a part is a string")
    return {} if text is None else {"text": _plain(text)}


def _moment(value: object) -> object:
    """A datetime of UTC; text is read as ISO 8601."""
    try:
        moment = datetime.fromisoformat(_plain(value)) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("a time is ISO 8601, such as 2026-03-02T09:14:00Z") from None
    if not isinstance(moment, datetime):
        return moment
    if moment.year not in _YEARS:
        raise ValueError(f"a time lies in the years {_YEARS[0]} to {_YEARS[-1]}")
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _id_text(value: str | int | UUID | None) -> str | None:
    return str(value) if value is not None and value != "" else None  # some endpoints send an empty one for none


Part = Annotated[dict[str, Any], AfterValidator(_words_alone)]
MessageId = (
    Annotated[StrictStr, Field(max_length=_MAX_ID_CHARS)]
    | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
    | Annotated[UUID, Strict()]
)


class IncomingMessage(BaseModel):
    """One message; what else stands in it is left alone."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    role: Annotated[HostId, AfterValidator(str.lower)]
    #: None: a tool call without words.
    content: StrictStr | Annotated[list[StrictStr | Part], Strict()] | None = None
    author: HostId | None = None
    name: HostId | None = None
    user: HostId | None = None
    time: Annotated[datetime | None, Strict(), BeforeValidator(_moment)] = None
    id: Annotated[MessageId | None, AfterValidator(_id_text)] = None

    @classmethod
    def of(cls, item: HostMessage) -> Self:
        """What a host gave.

        Raises:
            InvalidInputError: no message, or a field of it cannot be used.
        """
        fields = _langchain_fields(item) if isinstance(item, BaseMessage) else item
        if not isinstance(fields, Mapping):
            raise InvalidInputError("a message is a LangChain message or a mapping with role and content")
        try:
            return cls.model_validate(validate(dict[Any, Any], fields, strict=False))
        except ValidationError as error:
            raise InvalidInputError(first_problem(error)) from None

    @property
    def text(self) -> str:
        """The content's words, a line for each part."""
        if isinstance(self.content, list):
            texts = (part if isinstance(part, str) else part.get("text") for part in self.content)
            return "\n".join(text for text in texts if text)
        return self.content or ""

    def fingerprint(self, speaker: str | None, words: str) -> str:
        """What tells a message without an id from others: who spoke, when, and the words."""
        spoken = [self.role, speaker, self.author, self.name, self.time and self.time.isoformat(), words]
        return hashlib.sha256(json.dumps(spoken).encode()).hexdigest()


def _langchain_fields(item: BaseMessage) -> dict[str, object]:
    role = next(
        (role for kind, role in _LANGCHAIN_ROLES.items() if isinstance(item, kind)), getattr(item, "type", "other")
    )
    fields = {name: getattr(item, name, None) for name in ("id", "name", "content", "additional_kwargs")}
    extra = fields.pop("additional_kwargs")
    extra = extra if isinstance(extra, dict) else {}
    # LangChain's own middleware, such as the one that puts a summary in place of the history, speaks in a user's place
    role = "system" if "lc_source" in extra else role
    return {**fields, "role": role, "user": extra.get("user")}
