"""Formation turn by turn: on whose day a turn counts, and what is left of that day."""

from collections.abc import Iterable

from mnemic.operations.messages.transcript import speakers
from mnemic.operations.run.identity import session_of
from mnemic.operations.run.resources import Resources
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import Message
from mnemic.state.settings import Settings
from mnemic.storage import inbox, scopes


def quota_scope_key(messages: Iterable[Message], identity: Identity) -> str | None:
    """The scope key on whose day a turn counts: the run's own user, else the turn's first speaker, if one spoke."""
    user = identity.user_id or next(iter(speakers(messages)), None)
    return scope_key("user", user) if user else None


async def writes_left(resources: Resources, identity: Identity, settings: Settings, *, retry: bool) -> int | None:
    """Memories that turns may still bring today; None where sessions are formed in batches: always, or to midnight."""
    if settings.formation_mode == "batch":
        return None
    messages: tuple[Message, ...] = ()
    if not identity.user_id:
        async with resources.database.scoped(identity) as scoped:
            most = settings.formation_batch_messages
            messages = (await inbox.read_inbox(scoped, session_of(identity), most=most, set_aside=retry)).messages
    used, key = 0, quota_scope_key(messages, identity)
    if key:
        async with resources.database.scoped(identity, also=[key]) as scoped:
            used = await scopes.turn_writes_today(scoped, key)
    left = settings.writes_per_user_and_day - used
    return left if left > 0 else None
