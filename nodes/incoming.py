"""Messages as hosts have them, made fit to be stored: LangChain messages, OpenAI-style objects, or JSON lines."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid5

from mnemic.nodes.authenticated import Bound
from mnemic.nodes.lines import session_of
from mnemic.nodes.said import HostMessage, Said
from mnemic.policy.hygiene import clean_text, clip_text, says_nothing, strip_recalled
from mnemic.policy.names import display_name
from mnemic.prompts.memory_context import PREAMBLE
from mnemic.state.errors import InvalidInputError, RefusedIdentityError
from mnemic.state.identity import Identity
from mnemic.state.records import Message, Role

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


def to_messages(items: Sequence[HostMessage], identity: Identity, *, now: datetime) -> list[Message]:
    """The items that say something, in order.

    Instructions to the model, empty messages and what a recall put into a message, or a tool told, are left out. Hosts
    resend the whole list every turn, or its end, so a message without an id gets one from its session, its speaker and
    time where they are named, its content, and how often the list has said the same before.

    Raises:
        InvalidInputError: no session, no list, too many items, or one that is no message.
        RefusedIdentityError: one is said to be of somebody else than the authenticated user.
    """
    require_list(items)
    session_id = session_of(identity)
    made: list[Message] = []
    known: Counter[str] = Counter()
    for place, item in enumerate(items, start=1):
        try:
            message = _message(Said.of(item), identity, session_id, now, known)
        except InvalidInputError as error:
            raise type(error)(f"message {place}: {error}") from None
        made += [message] if message else []
    return made


def storable(items: Sequence[HostMessage], identity: Identity) -> list[HostMessage]:
    """The items that `to_messages` does not refuse.

    Raises:
        InvalidInputError: no list, or too many items.
    """
    require_list(items)
    return [item for item in items if _is_storable(item, identity)]


def _is_storable(item: HostMessage, identity: Identity) -> bool:
    try:
        to_messages([item], identity, now=datetime.now(UTC))
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
        _speaker(Said.of(item), identity)
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


def _message(said: Said, identity: Identity, session_id: str, now: datetime, known: Counter[str]) -> Message | None:
    content = clip_text(strip_recalled(clean_text(said.text[:_READ_CHARS])), MAX_MESSAGE_CHARS)
    role = _ROLES.get(said.role, "other")
    if said.role in INSTRUCTIONS or says_nothing(content) or (role == "tool" and content.startswith(PREAMBLE)):
        return None
    user_id = _speaker(said, identity) if role == "user" else None
    if role == "user" and user_id is None:
        raise InvalidInputError("it is a user's, but neither it nor the identity says whose")
    return Message(
        id=uuid5(_NAMESPACE, "\x1f".join([identity.agent_id, session_id, _own_id(said, content, known)])),
        session_id=session_id,
        role=role,
        author=display_name(said.author or said.name or user_id or said.role),
        user_id=user_id,
        content=content,
        said_at=said.time or now,
    )


def _speaker(said: Said, identity: Identity) -> str | None:
    """Whose words they are, if anybody says so; a name is what its bearer chose to be called, and tells last."""
    user_id = said.user or said.author or identity.user_id or said.name
    if isinstance(identity, Bound) and user_id != identity.user_id:
        raise RefusedIdentityError("user: whoever was authenticated speaks for nobody else; leave it out")
    return user_id


def _own_id(said: Said, content: str, known: Counter[str]) -> str:
    if said.id is not None:
        return f"id\x1f{said.id}"
    fingerprint = said.fingerprint(content)
    known[fingerprint] += 1
    return f"said\x1f{fingerprint}\x1f{known[fingerprint]}"
