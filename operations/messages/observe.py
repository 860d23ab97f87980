"""What is to be written once a turn is over: its messages, how far it was told of changes, and what it recalled."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from mnemic.operations.messages.incoming_message import HostMessage
from mnemic.operations.messages.normalize import storable, to_messages
from mnemic.operations.messages.speakers import session_of
from mnemic.operations.recall.turn import user_text
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import InvalidInputError, MnemicError
from mnemic.state.identity import Identity
from mnemic.state.records import Observed
from mnemic.storage import inbox, revisions
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")


async def observe(
    resources: Resources,
    identity: Identity,
    messages: Sequence[HostMessage],
    *,
    revision: int | None = None,
    several_speakers: bool = False,
) -> Observed:
    """Messages and revision in one transaction; then, in another that may fail, what was recalled.

    Raises:
        InvalidInputError: no session in the identity, a message that cannot be used, or the agent's history has not
            come to this revision; nothing was written.
        RefusedIdentityError: a message names another speaker; nothing was written.
    """
    # a whole conversation, turn after turn: 17 ms for 1,000 messages
    new = await asyncio.to_thread(
        to_messages, messages, identity, now=datetime.now(UTC), several_speakers=several_speakers
    )
    session = session_of(identity)

    async def act(scoped: ScopedTransaction) -> Observed:
        observed = await inbox.observe(scoped, session, new)
        if revision is not None:
            await revisions.advance(scoped, session, revision)
        return observed

    observed = await resources.database.write(identity, act)
    await resources.uses.write(resources.database, identity)
    return observed


async def observe_turn(
    resources: Resources,
    identity: Identity,
    messages: Sequence[HostMessage],
    *,
    revision: int | None,
    several_speakers: bool = False,
) -> None:
    """Stores the turn's messages for formation, and that the changes up to `revision` were announced.

    The answer is there already, so a failure costs a warning and nothing else: hosts resend the whole list, and the
    next turn brings what was missed. What cannot be stored is left out, for it stands in the list for good.

    Raises:
        InvalidInputError: the identity has no session.
    """
    session_of(identity)
    try:
        await _observe_storable(resources, identity, messages, revision, several_speakers=several_speakers)
    except InvalidInputError as error:
        _LOG.warning("the messages of this turn cannot be stored: %s", error)
    except MnemicError as error:
        _LOG.warning("the messages of this turn were not stored; they will be, when they come again: %s", error)


async def _observe_storable(
    resources: Resources,
    identity: Identity,
    messages: Sequence[HostMessage],
    revision: int | None,
    *,
    several_speakers: bool,
) -> None:
    try:
        await observe(resources, identity, messages, revision=revision, several_speakers=several_speakers)
    except InvalidInputError as error:
        fit = await asyncio.to_thread(storable, messages, identity, several_speakers=several_speakers)
        if len(fit) < len(messages) and any(map(user_text, fit)):  # answers alone tell nothing
            left_out = len(messages) - len(fit)
            _LOG.warning("messages that cannot be stored are left out: %d, such as %s", left_out, error)
            await _observe_storable(resources, identity, fit, revision, several_speakers=several_speakers)
        elif revision is None:
            raise
        else:  # such as that of a thread whose database was set back; the messages are not to be lost with it
            await observe(resources, identity, messages, several_speakers=several_speakers)
