"""What is to be written once a turn is over: its messages, how far it was told of changes, and what it recalled."""

from collections.abc import Sequence

from mnemic.operations.messages.speakers import session_of
from mnemic.operations.run.resources import Resources
from mnemic.state.identity import Identity
from mnemic.state.records import Message, Observed
from mnemic.storage import inbox, revisions
from mnemic.storage.database import Scoped


async def observe(
    resources: Resources, identity: Identity, messages: Sequence[Message], revision: int | None
) -> Observed:
    """Messages and revision in one transaction; then, in another that may fail, what was recalled.

    Raises:
        InvalidInputError: no session in the identity, or the agent's history has not come to this revision; nothing
            was written.
    """
    session = session_of(identity)

    async def act(scoped: Scoped) -> Observed:
        observed = await inbox.observe(scoped, session, messages)
        if revision is not None:
            await revisions.advance(scoped, session, revision)
        return observed

    observed = await resources.database.write(identity, act)
    await resources.uses.write(resources.database, identity)
    return observed
