"""Messages as hosts have them, made fit to be stored: LangChain messages, OpenAI-style objects, or JSON lines."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid5

from mnemic.operations.messages.incoming_message import HostMessage, IncomingMessage
from mnemic.operations.messages.speakers import session_of
from mnemic.operations.run.identity import BoundIdentity
from mnemic.policy.text.shape import clean_text, clip_text, display_name, says_nothing, strip_recalled
from mnemic.prompts.memory_context import PREAMBLE
from mnemic.state.errors import InvalidInputError, RefusedIdentityError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Role
from mnemic.state.records import Message

#: Namespace of ids made from what a host gives.
_NAMESPACE = UUID("6d0f2b1e-6c0e-5b5e-9f0a-5f1b6f6d7a11")
#: A pasted book is a document, not a turn; its beginning is kept.
MAX_MESSAGE_CHARS = 32_000
#: Of a longer text no more is looked at (a million characters take 0.1 s); what a recall put before it fits in.
_READ_CHARS = 1_000_000
#: What one call may bring, 2 s of work: hosts resend the whole list every turn, and no conversation is that long.
MAX_MESSAGES = 100_000
_ROLES: dict[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "tool": "tool"}
#: The host's own instructions are nobody's words.
INSTRUCTIONS = frozenset({"system", "developer"})
#: Every role with a meaning; what else a host invents is stored as `other`.
KNOWN_ROLES = frozenset({*_ROLES, *INSTRUCTIONS})


def to_messages(
    items: Sequence[HostMessage], identity: Identity, *, now: datetime, several_speakers: bool = False
) -> list[Message]:
    """The items that say something, in order.

    Instructions to the model, empty messages and what a recall put into a message, or a tool told, are left out. Hosts
    resend the whole list every turn, or its end, so a message without an id gets one from its session, its speaker and
    time where they are named, its content, and how often the list has said the same before.

    Args:
        items: what the host has.
        identity: the run's, whose user speaks.
        now: for messages without a time.
        several_speakers: the host says that a message may name another speaker.

    Raises:
        InvalidInputError: no session, no list, too many items, or one that is no message.
        RefusedIdentityError: one is said to be of somebody else, and the host does not say that several speak, or the
            user was authenticated.
    """
    require_list(items)
    session_of(identity)  # or refused as a whole
    made: list[Message] = []
    known: Counter[str] = Counter()
    for place, item in enumerate(items, start=1):
        try:
            incoming = IncomingMessage.of(item)
            speaker = _speaker(incoming, identity, several_speakers=several_speakers)
            message = _message(incoming, speaker, identity, now, known)
        except InvalidInputError as error:
            raise type(error)(f"message {place}: {error}") from None
        made += [message] if message else []
    return made


def storable(items: Sequence[HostMessage], identity: Identity, *, several_speakers: bool = False) -> list[HostMessage]:
    """The items that `to_messages` does not refuse.

    Raises:
        InvalidInputError: no list, or too many items.
    """
    require_list(items)
    return [item for item in items if _is_storable(item, identity, several_speakers=several_speakers)]


def _is_storable(item: HostMessage, identity: Identity, *, several_speakers: bool) -> bool:
    try:
        to_messages([item], identity, now=datetime.now(UTC), several_speakers=several_speakers)
    except InvalidInputError:
        return False
    return True


def require_storable(item: HostMessage, identity: Identity) -> None:
    """Refuses a message of a user that could never be stored, whoever they are.

    Raises:
        InvalidInputError: a field of it cannot be used.
        RefusedIdentityError: as `to_messages`.
    """
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


def _message(
    incoming: IncomingMessage, speaker: str | None, identity: Identity, now: datetime, known: Counter[str]
) -> Message | None:
    content = clip_text(strip_recalled(clean_text(incoming.text[:_READ_CHARS])), MAX_MESSAGE_CHARS)
    role = _ROLES.get(incoming.role, "other")
    if incoming.role in INSTRUCTIONS or says_nothing(content) or (role == "tool" and content.startswith(PREAMBLE)):
        return None
    if role == "user" and speaker is None:
        raise InvalidInputError("it is a user's, but neither it nor the identity says whose")
    session_id = session_of(identity)
    return Message(
        id=uuid5(_NAMESPACE, "\x1f".join([identity.agent_id, session_id, _own_id(incoming, speaker, content, known)])),
        session_id=session_id,
        role=role,
        author=display_name(incoming.author or incoming.name or speaker or incoming.role),
        user_id=speaker,
        content=content,
        said_at=incoming.time or now,
        brought_by=identity.actor,
    )


def _speaker(incoming: IncomingMessage, identity: Identity, *, several_speakers: bool) -> str | None:
    """Whose words a user's message has: the run's user's, and another's only where the host says that several speak.

    A name is what its bearer chose to be called.
    """
    if _ROLES.get(incoming.role) != "user":
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


def _own_id(incoming: IncomingMessage, speaker: str | None, content: str, known: Counter[str]) -> str:
    if incoming.id is not None:
        return f"id\x1f{incoming.id}"
    fingerprint = incoming.fingerprint(speaker, content)
    known[fingerprint] += 1
    return f"said\x1f{fingerprint}\x1f{known[fingerprint]}"
