"""Messages as hosts and files have them, checked and made fit to be stored: LangChain's, or mappings such as JSON."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, Final, Self
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
from mnemic.state.checking import field_name, first_problem, validate
from mnemic.state.errors import InvalidInputError, MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import HostId, Identity, display_name
from mnemic.state.kinds import Role
from mnemic.state.records import Message, attachment_id
from mnemic.state.times import MAX_OFFSET_MINUTES, local_time

_LOG = logging.getLogger("mnemic")

HostMessage = BaseMessage | Mapping[str, Any]
#: Reasons why a message cannot be stored.
Unstorable = InvalidInputError | MissingIdentityError

#: Beyond these a time is a mistake, and calendars end soon after.
_YEARS = range(1900, 2200)
#: E-mail's message ids, the longest in use, have at most 998 characters.
_MAX_ID_CHARS = 1000
#: Namespace of ids made from what a host gives.
_NAMESPACE = UUID("6d0f2b1e-6c0e-5b5e-9f0a-5f1b6f6d7a11")
#: A pasted book is a document, not a turn; its beginning is kept.
MAX_MESSAGE_CHARS = 32_000
#: Ends the stored text of a longer message.
CUT_MARK = " [message cut here]"
#: Of a longer text no more is looked at (a million characters take 0.1 s); what a recall put before it fits in.
_READ_CHARS = 1_000_000
#: What one call may bring, 2 s of work: hosts resend the whole list every turn, and no conversation is that long.
MAX_MESSAGES = 100_000
_ROLES: dict[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "tool": "tool"}
#: The host's own instructions are nobody's words.
INSTRUCTIONS = frozenset({"system", "developer"})
#: Every role with a meaning; what else a host invents is stored as `other`.
KNOWN_ROLES = frozenset({*_ROLES, *INSTRUCTIONS})
_LANGCHAIN_ROLES: dict[type[BaseMessage], str] = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}


def _as_list(content: object) -> object:
    """Read a single part, which has a type, as a list of one."""
    return [content] if isinstance(content, dict) and "type" in content else content


def _moment(value: object) -> object:
    """Return the time as it was given, with its offset if there is one; text is read as ISO 8601."""
    try:
        # a subclass may make anything of its own methods
        moment = datetime.fromisoformat(str.__str__(value)) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("a time is ISO 8601, such as 2026-03-02T09:14:00Z") from None
    if not isinstance(moment, datetime):
        if moment is None:
            return None
        raise ValueError("a time is ISO 8601, such as 2026-03-02T09:14:00Z, or a datetime")
    if moment.year not in _YEARS:
        raise ValueError(f"a time lies in the years {_YEARS[0]} to {_YEARS[-1]}")
    if abs(moment.utcoffset() or timedelta()) > timedelta(minutes=MAX_OFFSET_MINUTES):
        raise ValueError(f"the offset of a time is at most {MAX_OFFSET_MINUTES // 60} hours")
    return moment


def _id_text(value: str | int | UUID | None) -> str | None:
    return str(value) if value is not None and value != "" else None  # some endpoints send an empty one for none


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
    content: Annotated[StrictStr | Annotated[list[StrictStr | Part], Strict()] | None, BeforeValidator(_as_list)] = None
    #: Transcript of an answer that a model spoke.
    audio: Annotated[str | None, BeforeValidator(spoken_text)] = None
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
        given = validate(dict[Any, Any], fields, strict=False)
        _require_own_names(given)
        try:
            made = cls.model_validate(given)
        except ValidationError as error:
            raise InvalidInputError(first_problem(error)) from None
        if "content" not in given and made.stored_role == "user":
            raise InvalidInputError("content: missing; the words of a message are its content")
        return made

    @property
    def stored_role(self) -> Role:
        """Role under which the message is stored."""
        return _ROLES.get(self.role, "other")

    @property
    def words(self) -> str:
        """Text of the speaker, a line for each part; of a user only typed text."""
        return "\n".join(part["text"] for part in self._parts() if is_written(part, self.stored_role))

    @property
    def question(self) -> str:
        """Text to search for: the words, or the transcript of speech if there are none."""
        return self.words or "\n".join(part["text"] for part in self._parts() if is_speech(part))

    @property
    def text(self) -> str:
        """The words, with a mark for each attachment in its place."""
        lines = []
        for part in self._parts():
            line = part["text"] if is_written(part, self.stored_role) else mark_of(part)
            if line:
                lines.append(line)
        return "\n".join(lines)

    @property
    def attached(self) -> str:
        """Text of all parts that are not the speaker's own words, without what a recall had returned."""
        texts = (attached_text(part) for part in self._parts() if not is_written(part, self.stored_role))
        return "\n".join(text for text in texts if text and not text.startswith(PREAMBLE))

    def _parts(self) -> list[dict[str, str]]:
        content = self.content if isinstance(self.content, list) else [self.content or ""]
        parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
        if self.audio:
            # of a user it is an attachment, for it was not typed
            parts.append({"type": "audio" if self.stored_role == "user" else "text", "text": self.audio})
        return [part for part in parts if is_stored(part, self.stored_role)]

    def fingerprint(self, speaker: str | None, words: str) -> str:
        """Return a digest of speaker, time and words, which identifies a message without an id.

        A time without an offset counts as it was written: the message keeps its id if the time zone changes.
        """
        time = self.time and local_time(self.time, UTC).astimezone(UTC).isoformat()
        spoken = [self.role, speaker, self.author, self.name, time, words]
        return hashlib.sha256(json.dumps(spoken).encode()).hexdigest()


#: Who spoke and when decide whose a memory is and its date: a field that begins as one of these is a misspelt one.
_DECISIVE_FIELDS: Final = ("time", "user", "author")


def _require_own_names(fields: Mapping[Any, Any]) -> None:
    """Refuse a field such as `timestamp` or `user_id`, which would be left out without an error."""
    for name in fields.keys() - IncomingMessage.model_fields.keys():
        meant = next((own for own in _DECISIVE_FIELDS if isinstance(name, str) and name.startswith(own)), None)
        if meant:
            raise InvalidInputError(f"{field_name(name)}: a message has no such field; write {meant}")


def _langchain_fields(item: BaseMessage) -> dict[str, object]:
    role = next(
        (role for kind, role in _LANGCHAIN_ROLES.items() if isinstance(item, kind)), getattr(item, "type", "other")
    )
    fields = {name: getattr(item, name, None) for name in ("id", "name", "content")}
    extra = getattr(item, "additional_kwargs", None)
    extra = extra if isinstance(extra, dict) else {}
    # LangChain's own middleware, such as the one that puts a summary in place of the history, speaks in a user's place
    role = "system" if "lc_source" in extra else role
    time = extra.get("time", getattr(item, "time", None))
    return {**fields, "role": role, "time": time, **{name: extra.get(name) for name in ("user", "audio")}}


def to_messages(
    items: Sequence[HostMessage],
    identity: Identity,
    *,
    several_speakers: bool = False,
    refused: list[Unstorable] | None = None,
    zone: tzinfo = UTC,
) -> list[Message]:
    """Return the messages that are stored of the items, in order; text that came with one and was not typed follows it.

    Instructions to the model, empty messages and what a recall put into a message, or a tool told, are left out. Hosts
    resend the whole list every turn, or its end, so a message without an id gets one from its session, its speaker and
    time where they are named, its content, and how often the list has said the same before.

    Args:
        items: what the host has.
        identity: the run's, whose user speaks.
        several_speakers: the host says that a message may name another speaker.
        refused: takes what is wrong with the items that cannot be used, which are left out; None: it is raised.
        zone: time zone of times without an offset, and of the current time for messages without a time.

    Raises:
        InvalidInputError: no session, no list, too many items, or one that is no message.
        MissingIdentityError: a message of a user belongs to no user.
        RefusedIdentityError: one is said to be of somebody else, and the host does not say that several speak, or the
            user was authenticated.
    """
    require_list(items)
    session_of(identity)  # or refused as a whole
    now = datetime.now(zone)  # for messages without a time
    made: list[Message] = []
    known: Counter[str] = Counter()
    for place, item in enumerate(items, start=1):
        try:
            incoming = IncomingMessage.of(item)
            speaker = _speaker(incoming, identity, several_speakers=several_speakers)
            stored = _stored(incoming, speaker, identity, now, known)
        except (InvalidInputError, MissingIdentityError) as error:
            problem = type(error)(f"message {place}: {error}")
            if refused is None:
                raise problem from None
            refused.append(problem)
        else:
            made += stored
    return made


def require_storable(item: HostMessage, identity: Identity) -> None:
    """Refuse a message of a user that could never be stored.

    Raises:
        InvalidInputError: a field of it cannot be used.
        MissingIdentityError: the identity names no user.
        RefusedIdentityError: as `to_messages`.
    """
    require_speaker([item], identity, several_speakers=False)
    try:
        _speaker(IncomingMessage.of(item), identity, several_speakers=False)
    except InvalidInputError as error:
        raise type(error)(f"this message cannot be remembered, and is not answered: {error}") from None


def require_list(items: object) -> None:
    """Refuses what is no conversation.

    Raises:
        InvalidInputError: no list, or too many items.
    """
    if not isinstance(items, Sequence) or isinstance(items, str | bytes | bytearray):
        raise InvalidInputError("messages are a list of LangChain messages or mappings with role and content")
    if len(items) > MAX_MESSAGES:
        raise InvalidInputError(f"at most {MAX_MESSAGES:,} messages in one call: observe them in parts")


def last_question(messages: Sequence[HostMessage]) -> tuple[str, str | None]:
    """The text of the last message of a user, empty where there is none; and its id, if LangChain gave it one.

    Raises:
        InvalidInputError: no list of messages, or the last one cannot be used.
    """
    message, incoming = _last_of_user(messages)
    if incoming is None:
        return "", None
    return incoming.question, getattr(message, "id", None) if isinstance(message, BaseMessage) else None


def require_speaker(messages: Sequence[HostMessage], identity: Identity, *, several_speakers: bool) -> None:
    """Refuse a turn whose user is not named, because nothing of it would be remembered.

    Args:
        messages: the thread's; a thread without a message of a user needs no user.
        identity: the run's.
        several_speakers: the host says that a message may name its speaker.

    Raises:
        InvalidInputError: no list of messages, or the last one of a user cannot be used.
        MissingIdentityError: neither the identity nor the last message of a user names the user.
    """
    if identity.user_id is not None:
        return
    message, incoming = _last_of_user(messages)
    if incoming is None:
        return
    named = _langchain_fields(message)["user"] if isinstance(message, BaseMessage) else incoming.user or incoming.author
    if not (several_speakers and named):
        raise MissingIdentityError(
            "the run names no user, so nothing of this turn would be remembered: pass user_id in its context, as in "
            "context=Identity(agent_id=..., user_id=...); if several people speak, set several_speakers=True and a "
            "`user` on each message"
        )


def _last_of_user(messages: Sequence[HostMessage]) -> tuple[HostMessage | None, IncomingMessage | None]:
    """Return the last message of a user, as it is and as it was read; two times None if there is none."""
    require_list(messages)
    for message in reversed(messages):
        fields: HostMessage = message
        if isinstance(message, BaseMessage):  # its role and its content alone: a name is of no use to a recall
            fields = {"role": getattr(message, "type", "other"), "content": getattr(message, "content", None)}
        incoming = IncomingMessage.of(fields)
        if incoming.stored_role == "user":
            return message, incoming
    return None, None


def _stored(
    incoming: IncomingMessage, speaker: str | None, identity: Identity, now: datetime, known: Counter[str]
) -> list[Message]:
    """Return the message with its words and marks, and one with the text of its attachments; neither if it is empty."""
    content, attached = (strip_recalled(clean_text(text[:_READ_CHARS])) for text in (incoming.text, incoming.attached))
    role = incoming.stored_role
    texts: dict[Role, str] = {role: content, "attachment": attached}
    if role == "tool" and content.startswith(PREAMBLE):
        del texts[role]
    texts = {role: text for role, text in texts.items() if not is_blank(text)}
    if incoming.role in INSTRUCTIONS or not texts:
        return []
    if role == "user" and speaker is None:
        raise MissingIdentityError("it belongs to no user: give the identity a user_id")
    own_id = f"id\x1f{incoming.id}"
    if incoming.id is None:
        fingerprint = incoming.fingerprint(speaker, "\x1f".join(texts.values()))
        known[fingerprint] += 1
        own_id = f"said\x1f{fingerprint}\x1f{known[fingerprint]}"
    session_id = session_of(identity)
    message_id = uuid5(_NAMESPACE, f"{identity.agent_id}\x1f{session_id}\x1f{own_id}")
    made = Message(
        id=message_id,
        session_id=session_id,
        role=role,
        author=display_name(incoming.author or incoming.name or speaker or incoming.role),
        user_id=speaker,
        content="",
        said_at=local_time(incoming.time or now, now.tzinfo or UTC),
        submitted_by=identity.actor,
    )
    ids: dict[Role, UUID] = {role: message_id, "attachment": attachment_id(message_id)}
    stored = [replace(made, id=ids[role], role=role, content=_cut(text, made)) for role, text in texts.items()]
    return [replace(each, attached_to=message_id) if each.role == "attachment" else each for each in stored]


def _cut(text: str, message: Message) -> str:
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    _LOG.warning(
        "message %s of session %s has more than %d characters: the rest is not stored",
        message.id,
        message.session_id,
        MAX_MESSAGE_CHARS,
    )
    return clip_text(text, MAX_MESSAGE_CHARS - len(CUT_MARK)) + CUT_MARK


def _speaker(incoming: IncomingMessage, identity: Identity, *, several_speakers: bool) -> str | None:
    """Whose words a user's message has: the run's user's, and another's only where the host says that several speak.

    A name is what its bearer chose to be called.
    """
    if incoming.stored_role != "user":
        return None
    speaker = incoming.user or incoming.author or identity.user_id
    if speaker == identity.user_id:
        return speaker
    if isinstance(identity, BoundIdentity):
        raise RefusedIdentityError("user: whoever was authenticated speaks for nobody else; leave it out")
    if not several_speakers:
        raise RefusedIdentityError(
            "user: it names another speaker than the run's user, which counts only where the host says that several "
            "people speak: several_speakers=True"
        )
    return speaker
