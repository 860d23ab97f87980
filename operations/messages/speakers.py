"""Messages as the model steps see them, and the way back from the numbers they answer with."""

from collections.abc import Iterable, Sequence

from mnemic.policy.formation.sharing import is_pasted
from mnemic.policy.text.shape import display_name
from mnemic.prompts.conversation import Line
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.records import Message


def numbered(messages: Iterable[Message]) -> tuple[Line, ...]:
    """The messages in order, numbered from 1."""
    return tuple(
        Line(
            number=number,
            speaker=message.author,
            role=message.role,
            said_at=message.said_at,
            content=message.content,
        )
        for number, message in enumerate(messages, start=1)
    )


def cited(messages: Sequence[Message], numbers: Iterable[int]) -> list[Message]:
    """The messages a step named, once each, in their order; numbers that were not shown count for nothing."""
    known = {number for number in numbers if 1 <= number <= len(messages)}
    return [messages[number - 1] for number in sorted(known)]


def owner_of(sources: Iterable[Message], identity: Identity) -> str | None:
    """Whose memory it is: the first user among the sources, else the user of the run."""
    return next((message.user_id for message in sources if message.user_id), identity.user_id)


def own_words(sources: Iterable[Message]) -> list[Message]:
    """What people said themselves: neither the assistant's, a tool's nor a pasted document's text."""
    return [message for message in sources if message.role == "user" and not is_pasted(message.content)]


def speakers(messages: Iterable[Message]) -> list[str]:
    """The users who spoke, in order of appearance."""
    return list(dict.fromkeys(message.user_id for message in messages if message.user_id))


def brought_by(messages: Iterable[Message]) -> list[str]:
    """Who brought words of somebody else, in order of appearance."""
    return list(
        dict.fromkeys(
            message.brought_by
            for message in messages
            if message.brought_by and message.user_id not in (None, message.brought_by)
        )
    )


def only_speaks(messages: Iterable[Message], user_id: str | None) -> bool:
    """Whether nobody else speaks in these messages."""
    return {*speakers(messages)} <= {user_id}


def session_of(identity: Identity) -> str:
    """The session the run works on.

    Raises:
        InvalidInputError: the identity names none.
    """
    if identity.session_id is None:
        raise InvalidInputError("messages belong to a session: give the identity a session_id")
    return identity.session_id


def group_name(identity: Identity, names: dict[str, str]) -> str | None:
    """Display name of the one group the run belongs to; None where there is none, or several to choose from."""
    if len(identity.group_ids) != 1:
        return None
    group_id = identity.group_ids[0]
    return names.get(f"group:{group_id}") or display_name(group_id)
