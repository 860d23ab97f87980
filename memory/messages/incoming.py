"""Messages of hosts and files, LangChain's or mappings such as JSON: checked, and converted to stored messages."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, Final, NamedTuple, Self
from uuid import UUID, uuid5

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

from mnemic.memory.runtime.identity import BoundIdentity, session_of
from mnemic.memory.runtime.message_parts import (
    Part,
    attached_text,
    is_speech,
    is_stored,
    is_written,
    mark_of,
    spoken_text,
)
from mnemic.memory.text.shape import clean_text, clip_text, is_blank, strip_recalled
from mnemic.prompts.recall.memory_context import PREAMBLE
from mnemic.state.checking import field_name, first_problem, nearest, quoted, validate
from mnemic.state.errors import InvalidInputError, MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import HostId, Identity, display_name
from mnemic.state.kinds import Role
from mnemic.state.records import Message, attachment_id
from mnemic.state.times import MAX_OFFSET_MINUTES, local_time

_LOG = logging.getLogger("mnemic")

HostMessage = BaseMessage | Mapping[str, Any]
#: Reasons why a message cannot be stored.
Unstorable = InvalidInputError | MissingIdentityError

#: Years of a plausible time; calendars end soon after.
_YEARS: Final = range(1900, 2200)
#: Maximum length of a message id, in characters: the longest in use, those of e-mail, have at most 998.
_MAX_ID_CHARS: Final = 1000
#: Namespace of the ids of stored messages.
_NAMESPACE: Final = UUID("6d0f2b1e-6c0e-5b5e-9f0a-5f1b6f6d7a11")
#: Maximum length of a stored message, in characters. A pasted book is a document, not a turn: its beginning is stored.
MAX_MESSAGE_CHARS: Final = 32_000
#: End of the stored text of a longer message.
CUT_MARK: Final = " [message cut here]"
#: Characters of a text that are read (a million take 0.1 s). The block that a recall puts in front of it fits in.
_READ_CHARS: Final = 1_000_000
#: Maximum number of messages of one call, 2 s of work: hosts resend the whole list every turn.
MAX_MESSAGES: Final = 100_000
_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",  # Gemini's
    "tool": "tool",
    "function": "tool",  # OpenAI's former one
    "other": "other",
}
#: Roles of the host's own instructions, which no person and no model wrote.
INSTRUCTIONS: Final = frozenset({"system", "developer"})
_KNOWN_ROLES: Final = frozenset({*_ROLES, *INSTRUCTIONS})
_LANGCHAIN_ROLES: Final[dict[type[BaseMessage], str]] = {
    HumanMessage: "user",
    AIMessage: "assistant",
    ToolMessage: "tool",
}
#: Fields that decide the owner and the date of a memory. A field that begins as one of them is a misspelt one.
_DECISIVE_FIELDS: Final = ("time", "user", "author")
#: Separator of the parts of an id, a character that no part has.
_SEPARATOR: Final = "\x1f"


def _as_list(content: object) -> object:
    """Return a single part, which has a type, as a list of one; any other content as it is."""
    if isinstance(content, dict) and "type" in content:
        return [content]
    return content


def _to_time(value: object) -> object:
    """Return the time of a message, with its offset if it has one; text is read as ISO 8601."""
    time = value
    if isinstance(value, str):
        with suppress(ValueError):
            time = datetime.fromisoformat(str.__str__(value))  # not by the methods of a subclass
    if time is None:
        return None
    if not isinstance(time, datetime):
        raise ValueError("must be ISO 8601, such as 2026-03-02T09:14:00Z, or a datetime")
    if time.year not in _YEARS:
        raise ValueError(f"must be in the years {_YEARS[0]} to {_YEARS[-1]}")
    if abs(time.utcoffset() or timedelta()) > timedelta(minutes=MAX_OFFSET_MINUTES):
        raise ValueError(f"must have an offset from UTC of at most {MAX_OFFSET_MINUTES // 60} hours")
    return time


def _id_text(value: str | int | UUID | None) -> str | None:
    if value is None or value == "":  # some endpoints send an empty id for none
        return None
    return str(value)


def _known_role(value: str) -> str:
    role = value.lower()
    if role not in _KNOWN_ROLES:
        raise ValueError(
            f"{quoted(value)} is unknown{nearest(role, _KNOWN_ROLES)}; use user, assistant, tool, system or"
            " developer, or other for anything else"
        )
    return role


MessageId = (
    Annotated[StrictStr, Field(max_length=_MAX_ID_CHARS)]
    | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
    | Annotated[UUID, Strict()]
)


class IncomingMessage(BaseModel):
    """One message of a host; its other fields are ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    role: Annotated[HostId, AfterValidator(_known_role)]
    #: None for a tool call without text.
    content: Annotated[StrictStr | Annotated[list[StrictStr | Part], Strict()] | None, BeforeValidator(_as_list)] = None
    #: Transcript of an answer that a model spoke.
    audio: Annotated[str | None, BeforeValidator(spoken_text)] = None
    author: HostId | None = None
    name: HostId | None = None
    user: HostId | None = None
    time: Annotated[datetime | None, Strict(), BeforeValidator(_to_time)] = None
    id: Annotated[MessageId | None, AfterValidator(_id_text)] = None

    @classmethod
    def of(cls, item: HostMessage) -> Self:
        """Return the message that a host passed.

        Raises:
            InvalidInputError: if it is no message, or a field of it cannot be used.
        """
        fields: object = _langchain_fields(item) if isinstance(item, BaseMessage) else item
        if not isinstance(fields, Mapping):
            raise InvalidInputError("a message is a LangChain message or a mapping with role and content")
        fields = validate(dict[Any, Any], fields, strict=False)
        _require_known_names(fields)
        try:
            message = cls.model_validate(fields)
        except ValidationError as error:
            raise InvalidInputError(first_problem(error)) from None
        if "content" not in fields and message.stored_role == "user":
            raise InvalidInputError("content: is missing; put the text of the message there")
        return message

    @property
    def stored_role(self) -> Role:
        """Role under which the message is stored."""
        return _ROLES.get(self.role, "other")  # instructions, which are not stored

    @property
    def words(self) -> str:
        """Text of the speaker, a line for each part; only typed text if a user speaks."""
        return "\n".join(part["text"] for part in self._parts() if is_written(part, self.stored_role))

    @property
    def question(self) -> str:
        """Text to search for: the words, or the transcript of speech if there are none."""
        return self.words or "\n".join(part["text"] for part in self._parts() if is_speech(part))

    @property
    def text(self) -> str:
        """The words, with a mark for each attachment in its place."""
        lines: list[str] = []
        for part in self._parts():
            if is_written(part, self.stored_role):
                lines.append(part["text"])
            else:
                lines.append(mark_of(part) or "")
        return "\n".join(line for line in lines if line)

    @property
    def attached(self) -> str:
        """Text of all parts that are not the speaker's words, without blocks that a recall had returned."""
        texts: list[str] = []
        for part in self._parts():
            if is_written(part, self.stored_role):
                continue
            text = attached_text(part)
            if text and not text.startswith(PREAMBLE):
                texts.append(text)
        return "\n".join(texts)

    def _parts(self) -> list[dict[str, str]]:
        content = self.content if isinstance(self.content, list) else [self.content or ""]
        parts: list[dict[str, str]] = []
        for part in content:
            parts.append({"type": "text", "text": part} if isinstance(part, str) else part)
        if self.audio:
            # a user did not type it, so it is an attachment
            kind = "audio" if self.stored_role == "user" else "text"
            parts.append({"type": kind, "text": self.audio})
        return [part for part in parts if is_stored(part, self.stored_role)]

    def fingerprint(self, speaker: str | None, words: str) -> str:
        """Return a digest of speaker, time and words, which identifies a message without an id.

        A time without an offset counts as it was written: the message keeps its id if the time zone changes.
        """
        time = self.time and local_time(self.time, UTC).astimezone(UTC).isoformat()
        identifying = [self.role, speaker, self.author, self.name, time, words]
        return hashlib.sha256(json.dumps(identifying).encode()).hexdigest()


def _require_known_names(fields: Mapping[Any, Any]) -> None:
    """Refuse a field such as `timestamp` or `user_id`, which would be ignored without an error."""
    for name in fields.keys() - IncomingMessage.model_fields.keys():
        for field in _DECISIVE_FIELDS:
            if isinstance(name, str) and name.startswith(field):
                raise InvalidInputError(f"{field_name(name)}: a message has no field of this name; use {field}")


def _langchain_fields(item: BaseMessage) -> dict[str, object]:
    extra = _extra_fields(item)
    fields: dict[str, object] = {name: getattr(item, name, None) for name in ("id", "name", "content")}
    fields["role"] = _langchain_role(item)
    fields["time"] = extra.get("time", getattr(item, "time", None))
    fields["user"] = extra.get("user")
    fields["audio"] = extra.get("audio")
    return fields


def _extra_fields(item: BaseMessage) -> dict[str, object]:
    extra = getattr(item, "additional_kwargs", None)
    return extra if isinstance(extra, dict) else {}


def _langchain_role(item: BaseMessage) -> str:
    if "lc_source" in _extra_fields(item):
        # LangChain's middleware speaks in a user's place: one of them puts a summary in place of the history
        return "system"
    for kind, role in _LANGCHAIN_ROLES.items():
        if isinstance(item, kind):
            return role
    # a ChatMessage has a role of its own; the type of another class is no misspelt role, so it is not refused
    own_role = getattr(item, "role", getattr(item, "type", None))
    if isinstance(own_role, str) and own_role.lower() in _KNOWN_ROLES:
        return own_role
    return "other"


def to_messages(
    items: Sequence[HostMessage],
    identity: Identity,
    *,
    several_speakers: bool = False,
    refused: list[Unstorable] | None = None,
    zone: tzinfo = UTC,
) -> list[Message]:
    """Return the stored messages of a host's list, in order; attached text follows its message.

    Instructions to the model, empty messages, blocks of a recall and results of memory tools are left out. Hosts resend
    the whole list every turn, or its end. So a message without an id gets one from its session, its speaker and time if
    they are named, its content, and the number of equal messages before it in the list.

    Args:
        items: Messages of the host.
        identity: Identity of the run; its user is the speaker.
        several_speakers: Whether the host lets a message name another speaker.
        refused: List that receives an error for each message that cannot be stored; such messages are left out. None
            raises the first error.
        zone: Time zone of times without an offset, and of the current time for messages without a time.

    Raises:
        InvalidInputError: if there is no session, no list or too many messages, or if one is no message.
        MissingIdentityError: if a message of a user belongs to no user.
        RefusedIdentityError: if a message names another speaker, and the host does not allow that or the user was
            authenticated.
    """
    require_list(items)
    session_of(identity)  # refuses the whole list without a session
    conversion = _Conversion(identity, datetime.now(zone))
    stored: list[Message] = []
    for place, item in enumerate(items, start=1):
        try:
            incoming = IncomingMessage.of(item)
            speaker = _speaker(incoming, identity, several_speakers=several_speakers)
            stored += conversion.stored(incoming, speaker)
        except (InvalidInputError, MissingIdentityError) as error:
            problem = type(error)(f"message {place}: {error}")
            if refused is None:
                raise problem from None
            refused.append(problem)
    return stored


def require_storable(item: HostMessage, identity: Identity) -> None:
    """Refuse a message of a user that could never be stored.

    Raises:
        InvalidInputError: if a field of it cannot be used.
        MissingIdentityError: if the identity names no user.
        RefusedIdentityError: as `to_messages`.
    """
    require_speaker([item], identity, several_speakers=False)
    try:
        _speaker(IncomingMessage.of(item), identity, several_speakers=False)
    except InvalidInputError as error:
        raise type(error)(f"this message cannot be remembered, and is not answered: {error}") from None


def require_list(items: object) -> None:
    """Refuse an argument that is no conversation.

    Raises:
        InvalidInputError: if it is no list, or has too many items.
    """
    if not isinstance(items, Sequence) or isinstance(items, str | bytes | bytearray):
        raise InvalidInputError("messages are a list of LangChain messages or mappings with role and content")
    if len(items) > MAX_MESSAGES:
        raise InvalidInputError(f"at most {MAX_MESSAGES:,} messages in one call: observe them in parts")


class TurnQuestion(NamedTuple):
    """The last message of a user in a thread."""

    #: Text of the message; empty without one.
    text: str = ""
    #: Text of the user's message before it.
    previous: str = ""
    #: Id of the last message if LangChain gave it one.
    message_id: str | None = None


def last_question(messages: Sequence[HostMessage]) -> TurnQuestion:
    """Return the last message of a user, with the text of the one before it.

    Raises:
        InvalidInputError: if it is no list of messages, or the last one cannot be used.
    """
    of_user = _messages_of_user(messages)
    message, incoming = next(of_user, (None, None))
    if incoming is None:
        return TurnQuestion()
    earlier = None
    with suppress(InvalidInputError):  # an earlier message that cannot be used does not end the turn
        _, earlier = next(of_user, (None, None))
    message_id = getattr(message, "id", None) if isinstance(message, BaseMessage) else None
    return TurnQuestion(incoming.question, earlier.question if earlier else "", message_id)


def require_speaker(messages: Sequence[HostMessage], identity: Identity, *, several_speakers: bool) -> None:
    """Refuse a turn without a named user, because no message of it would be stored.

    Args:
        messages: Messages of the thread; a thread without a message of a user needs no user.
        identity: Identity of the run.
        several_speakers: Whether the host lets a message name its speaker.

    Raises:
        InvalidInputError: if it is no list of messages, or the last one of a user cannot be used.
        MissingIdentityError: if neither the identity nor the last message of a user names the user.
    """
    if identity.user_id is not None:
        return
    message, incoming = next(_messages_of_user(messages), (None, None))
    if incoming is None:
        return
    speaker: object = incoming.user or incoming.author
    if isinstance(message, BaseMessage):
        speaker = _extra_fields(message).get("user")
    if not (several_speakers and speaker):
        raise MissingIdentityError(
            "the run names no user, so nothing of this turn would be remembered: pass user_id in its context, as in "
            "context=Identity(agent_id=..., user_id=...); if several people speak, set several_speakers=True and a "
            "`user` on each message"
        )


def _messages_of_user(messages: Sequence[HostMessage]) -> Iterator[tuple[HostMessage, IncomingMessage]]:
    """Yield the messages of a user, as they are and as they were read, the last one first."""
    require_list(messages)
    for message in reversed(messages):
        fields: HostMessage = message
        if isinstance(message, BaseMessage):  # role and content only: a recall has no use for a name
            fields = {"role": _langchain_role(message), "content": getattr(message, "content", None)}
        incoming = IncomingMessage.of(fields)
        if incoming.stored_role == "user":
            yield message, incoming


class _Conversion:
    """Conversion of one list of messages."""

    def __init__(self, identity: Identity, now: datetime) -> None:
        self._identity = identity
        #: Time of messages without a time.
        self._now = now
        #: Number of equal messages without an id so far, by fingerprint.
        self._equal: Counter[str] = Counter()

    def stored(self, incoming: IncomingMessage, speaker: str | None) -> list[Message]:
        """Return the message with words and marks, and one with the text of its attachments; none if it is empty."""
        texts = _texts_to_store(incoming)
        if not texts:
            return []
        role = incoming.stored_role
        if role == "user" and speaker is None:
            raise MissingIdentityError("a message of the role user belongs to no user: give the identity a user_id")
        message_id = self._id(incoming, speaker, texts)
        message = Message(
            id=message_id,
            session_id=session_of(self._identity),
            role=role,
            author=display_name(incoming.author or incoming.name or speaker or incoming.role),
            user_id=speaker,
            content="",
            said_at=local_time(incoming.time or self._now, self._now.tzinfo or UTC),
            submitted_by=self._identity.actor,
        )
        stored: list[Message] = []
        if role in texts:
            stored.append(replace(message, content=_cut(texts[role], message)))
        if "attachment" in texts:
            attachment = replace(message, id=attachment_id(message_id), role="attachment", attached_to=message_id)
            stored.append(replace(attachment, content=_cut(texts["attachment"], message)))
        return stored

    def _id(self, incoming: IncomingMessage, speaker: str | None, texts: Mapping[Role, str]) -> UUID:
        if incoming.id is None:
            fingerprint = incoming.fingerprint(speaker, _SEPARATOR.join(texts.values()))
            self._equal[fingerprint] += 1
            parts = ["said", fingerprint, str(self._equal[fingerprint])]
        else:
            parts = ["id", str(incoming.id)]
        return uuid5(_NAMESPACE, _SEPARATOR.join([self._identity.agent_id, session_of(self._identity), *parts]))


def _texts_to_store(incoming: IncomingMessage) -> dict[Role, str]:
    """Return the cleaned texts of a message and of its attachments, by role; none for one that is not stored."""
    if incoming.role in INSTRUCTIONS:
        return {}
    content = strip_recalled(clean_text(incoming.text[:_READ_CHARS]))
    attached = strip_recalled(clean_text(incoming.attached[:_READ_CHARS]))
    texts: dict[Role, str] = {}
    is_recalled = incoming.stored_role == "tool" and content.startswith(PREAMBLE)
    if not is_recalled and not is_blank(content):
        texts[incoming.stored_role] = content
    if not is_blank(attached):
        texts["attachment"] = attached
    return texts


def _cut(text: str, message: Message) -> str:
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    ids = {"message_id": str(message.id), "session_id": message.session_id}
    warning = "Message %s of session %s has more than %d characters: the rest is not stored."
    _LOG.warning(warning, message.id, message.session_id, MAX_MESSAGE_CHARS, extra=ids)
    return clip_text(text, MAX_MESSAGE_CHARS - len(CUT_MARK)) + CUT_MARK


def _speaker(incoming: IncomingMessage, identity: Identity, *, several_speakers: bool) -> str | None:
    """Return the user id of a message's speaker: the run's user, or another one if the host allows that.

    The field `name` counts for nothing here: its bearer chose it.
    """
    if incoming.stored_role != "user":
        return None
    speaker = incoming.user or incoming.author or identity.user_id
    if speaker == identity.user_id:
        return speaker
    if isinstance(identity, BoundIdentity):
        raise RefusedIdentityError("user: an authenticated user speaks for no other user; leave it out")
    if not several_speakers:
        raise RefusedIdentityError(
            "user: it names another speaker than the run's user; pass several_speakers=True if the host, and no client,"
            " sets this field"
        )
    return speaker
