"""Messages as hosts have them, made fit to be stored: LangChain messages, OpenAI-style objects, or JSON lines."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from mnemic.policy.hygiene import clean_text, clip_text, strip_recalled
from mnemic.policy.names import display_name
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import MAX_ID_BYTES, Identity
from mnemic.state.records import Message, Role

HostMessage = BaseMessage | Mapping[str, Any]

#: Namespace of ids made from what a host gives.
_NAMESPACE = UUID("6d0f2b1e-6c0e-5b5e-9f0a-5f1b6f6d7a11")
#: Beyond these a time is a mistake, and calendars end soon after.
_YEARS = range(1900, 2200)
#: A pasted book is a document, not a turn; its beginning is kept.
MAX_MESSAGE_CHARS = 32_000
_ROLES: dict[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "tool": "tool"}
#: The host's own instructions are nobody's words.
_INSTRUCTIONS = frozenset({"system", "developer"})
#: Every role with a meaning; what else a host invents is stored as `other`.
KNOWN_ROLES = frozenset({*_ROLES, *_INSTRUCTIONS})


def to_messages(items: Sequence[HostMessage], identity: Identity, *, now: datetime) -> list[Message]:
    """The items that say something, in order.

    Instructions to the model, empty messages and what a recall put into a message are left out. A message without an
    id gets one from its session, its place in the list and its content, since hosts resend the whole list every turn.

    Raises:
        InvalidInputError: no session, or an item that is no message.
    """
    if identity.session_id is None:
        raise InvalidInputError("messages belong to a session: give the identity a session_id")
    made = (
        _message(_fields(item), place, identity, identity.session_id, now) for place, item in enumerate(items, start=1)
    )
    return [message for message in made if message is not None]


def _fields(item: HostMessage) -> Mapping[str, Any]:
    if isinstance(item, BaseMessage):
        kind = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}
        role = next((role for cls, role in kind.items() if isinstance(item, cls)), item.type)
        return {
            "id": item.id,
            "role": role,
            "name": item.name,
            "user": item.additional_kwargs.get("user"),
            "content": item.text,
        }
    if isinstance(item, Mapping):
        return item
    raise InvalidInputError(f"a message is a LangChain message or a mapping with role and content, not {type(item)}")


def _message(
    fields: Mapping[str, Any], place: int, identity: Identity, session_id: str, now: datetime
) -> Message | None:
    role_name = str(fields.get("role") or "").lower()
    if not role_name:
        raise InvalidInputError(f"message {place} has no role; give it role and content")
    content = clip_text(strip_recalled(clean_text(_text(fields.get("content"), place))), MAX_MESSAGE_CHARS)
    if role_name in _INSTRUCTIONS or not content:
        return None
    role = _ROLES.get(role_name, "other")
    author, name = _name(fields.get("author"), place), _name(fields.get("name"), place)
    # a name is what its bearer chose to be called; whose words they are, only `user`, `author` or the identity says
    user_id = (_name(fields.get("user"), place) or author or identity.user_id or name) if role == "user" else None
    if role == "user" and user_id is None:
        raise InvalidInputError(f"message {place} is a user's, but neither it nor the identity says whose")
    return Message(
        id=_id(fields.get("id"), identity.agent_id, session_id, place, role_name, content),
        session_id=session_id,
        role=role,
        author=display_name(author or name or user_id or role_name),
        user_id=user_id,
        content=content,
        said_at=_moment(fields.get("time"), place, now),
    )


def _text(content: Any, place: int) -> str:
    if content is None:
        return ""  # a tool call without words
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable) and not isinstance(content, Mapping):
        parts = (
            part if isinstance(part, str) else part.get("text", "")
            for part in content
            if isinstance(part, str | Mapping)
        )
        return "\n".join(str(part) for part in parts if part)
    raise InvalidInputError(f"message {place} has a content that is no text")


def _name(value: Any, place: int) -> str | None:
    name = clean_text(value) if isinstance(value, str) else None
    if value is not None and (not name or not name.isprintable() or len(name.encode()) > MAX_ID_BYTES):
        raise InvalidInputError(f"message {place} names its author in a way that cannot be used")
    return name


def _id(value: Any, agent_id: str, session_id: str, place: int, role: str, content: str) -> UUID:
    if value:
        return uuid5(_NAMESPACE, f"{agent_id}\x1f{session_id}\x1f{clean_text(str(value))}")
    digest = hashlib.sha256(f"{role}\x1f{content}".encode()).hexdigest()
    return uuid5(_NAMESPACE, f"{agent_id}\x1f{session_id}\x1f{place}\x1f{digest}")


def _moment(value: Any, place: int, now: datetime) -> datetime:
    if value is None:
        return now
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise InvalidInputError(
            f"message {place} has a time that is not ISO 8601, such as 2026-03-02T09:14:00Z"
        ) from None
    if moment.year not in _YEARS:
        raise InvalidInputError(f"message {place} has a time outside the years {_YEARS[0]} to {_YEARS[-1]}")
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
