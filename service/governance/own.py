"""Whose memories are a person's own: those of their user and session; what is shared is for administrators."""

from mnemic.operations.run.identity import to_identity
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity, scope_key


def owner(identity: Identity) -> tuple[Identity, list[str]]:
    """The identity, checked, and the scope keys that are the person's own.

    Raises:
        InvalidInputError: no user and no session in it, or an identity that cannot be used.
    """
    who = to_identity(identity)
    own = [scope_key("user", who.user_id)] if who.user_id else []
    own += [scope_key("session", who.session_id)] if who.session_id else []
    if not own:
        raise InvalidInputError("user_id: a person's own memories need the person's id, or a session")
    return who, own
