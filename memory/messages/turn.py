"""A turn of an agent in a host: recall before it, store its messages, and form memories of them."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from mnemic.memory.formation.steps import form
from mnemic.memory.messages.incoming import HostMessage, Unstorable, last_question, to_messages
from mnemic.memory.recall.steps import recall
from mnemic.memory.runtime.budget import require_tokens
from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.resources import Resources
from mnemic.prompts.repair import refusal_summary
from mnemic.state.errors import (
    BudgetSpentError,
    ConcurrentChangeError,
    InvalidInputError,
    MissingIdentityError,
    MnemicError,
)
from mnemic.state.graphs import FormationInput, FormationOutput, RecallInput, SearchMode
from mnemic.state.identity import Identity
from mnemic.state.records import Observed
from mnemic.state.supervisor import MemoryState
from mnemic.state.worker_threads import in_thread
from mnemic.storage import inbox, revisions
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: Attempts of a formation that loses a race against another run each time.
MAX_ATTEMPTS: Final = 3


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """Options of a host's recalls."""

    #: Role with the allowlist of the recall; None for the role of the identity.
    role: str | None = None
    search: SearchMode = "auto"
    #: Maximum number of tokens of the search results; None for the setting.
    budget_tokens: int | None = None

    def in_role(self, identity: Identity) -> Identity:
        """Return the identity of the run in this role."""
        if not self.role:
            return identity
        return identity.model_copy(update={"role": self.role})


async def recall_turn(
    resources: Resources, identity: Identity, messages: Sequence[HostMessage], options: RecallOptions | None = None
) -> MemoryState:
    """Return the memory channels of the turn that answers the last message of a user.

    Raises:
        InvalidInputError: if it is no list of messages, or the last one cannot be used.
    """
    options = options or RecallOptions()
    asked = last_question(messages)
    request: RecallInput = {
        "question": asked.text,
        "previous": asked.previous,
        "search": options.search,
        "budget_tokens": options.budget_tokens,
    }
    recalled = await recall(resources, options.in_role(identity), request)
    return {
        "memory_context": replace(recalled["context"], message_id=asked.message_id),
        "memory_revision": recalled["revision"],
        "memory_searched": recalled["searched"],
    }


async def begin_turn(recalling: Coroutine[Any, Any, MemoryState], storing: Coroutine[Any, Any, None]) -> MemoryState:
    """Recall, and store the first messages of the turn at the same time.

    From here on the user's message is safe from other middleware, from other nodes, and from a failing model.
    """
    task = asyncio.create_task(storing)
    try:
        return await recalling
    finally:
        await task


async def observe(
    resources: Resources,
    identity: Identity,
    messages: Sequence[HostMessage],
    *,
    revision: int | None = None,
    several_speakers: bool = False,
) -> Observed:
    """Store messages and revision in one transaction; then count the recalled memories in another, which may fail.

    Nothing is written if it raises.

    Raises:
        InvalidInputError: if the identity has no session, a message cannot be used, or the revision is above the last
            one of the agent's history.
        MissingIdentityError: if a message of a user belongs to no user.
        RefusedIdentityError: if a message names another speaker.
    """
    observed = await _store(resources, identity, messages, revision=revision, several_speakers=several_speakers)
    await resources.uses.write(resources.database, identity)
    resources.write_events()
    return observed


async def _store(  # noqa: PLR0913 - the options of `observe`, and the list of refused messages
    resources: Resources,
    identity: Identity,
    messages: Sequence[HostMessage],
    *,
    revision: int | None,
    several_speakers: bool,
    refused: list[Unstorable] | None = None,
) -> Observed:
    """Store messages and revision in one transaction.

    Args:
        resources: Resources of the process.
        identity: Identity of the run.
        messages: Messages of the thread.
        revision: Revision of the turn's recall; None advances nothing.
        several_speakers: Whether the host lets a message name another speaker.
        refused: List as of `to_messages`; if no message of a user remains, its first error is raised.
    """
    session_id = session_of(identity)
    zone = resources.zone_of(identity)
    convert = partial(to_messages, several_speakers=several_speakers, refused=refused, zone=zone)
    # in a thread: the whole conversation comes every turn, and 1,000 messages take 17 ms
    new = await in_thread(convert, messages, identity)
    if refused and not any(message.role == "user" for message in new):  # answers without a user's message are useless
        raise refused[0]
    shown = resources.shown.read(identity)

    async def store_and_advance(tx: ScopedTransaction) -> Observed:
        stored_id = tx.stored_session_id or session_id
        observed = await inbox.observe(tx, stored_id, new)
        if revision is not None:
            await revisions.advance(tx, stored_id, revision, shown)
        return observed

    observed = await resources.database.write(identity, store_and_advance)
    if revision is not None:
        resources.shown.forget(identity)
    return observed


async def observe_turn(
    resources: Resources,
    identity: Identity,
    messages: Sequence[HostMessage],
    *,
    revision: int | None,
    several_speakers: bool = False,
) -> None:
    """Store the messages of a turn that is over, as `store_turn`, and count the memories that it recalled.

    Raises:
        InvalidInputError: if the identity has no session.
    """
    await store_turn(resources, identity, messages, revision=revision, several_speakers=several_speakers)
    await resources.uses.write(resources.database, identity)


async def store_turn(
    resources: Resources,
    identity: Identity,
    messages: Sequence[HostMessage],
    *,
    revision: int | None = None,
    several_speakers: bool = False,
) -> None:
    """Store the thread's messages for formation, each once, and the revision up to which changes were announced.

    A failure is only logged: hosts resend the whole list, so the end of the turn or the next turn brings the missing
    messages. A message that cannot be stored is left out, because it stays in the list for good.

    Raises:
        InvalidInputError: if the identity has no session.
    """
    ids = {"agent_id": identity.agent_id, "session_id": session_of(identity)}
    refused: list[Unstorable] = []
    store = partial(_store, resources, identity, messages, several_speakers=several_speakers, refused=refused)
    try:
        try:
            await store(revision=revision)
        except InvalidInputError:
            if revision is None:
                raise
            # the revision of a thread may be too high, such as after a restore of the database: store the messages
            refused.clear()
            await store(revision=None)
    except (InvalidInputError, MissingIdentityError) as error:
        _LOG.warning("Could not store the messages of this turn: %s", error, extra=ids)
        return
    except MnemicError as error:
        text = "Could not store the messages of this turn: %s. They are stored with the next turn."
        _LOG.warning(text, error, extra=ids)
        return
    if refused:
        text = "%d messages cannot be stored and are left out, such as %s"
        _LOG.warning(text, len(refused), refused[0], extra=ids)


async def run_formation(resources: Resources, identity: Identity, request: FormationInput) -> FormationOutput:
    """Form a session once, and again if another run was faster, up to `MAX_ATTEMPTS` times."""
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(ConcurrentChangeError):
            return await form(resources, identity, request)
    return await form(resources, identity, request)


async def form_pending(resources: Resources, identity: Identity, request: FormationInput) -> list[FormationOutput]:
    """Run formations of a session until none is due, and return their outputs.

    The last run finds the messages of turns that ended in the meantime: their own formation would be this one. A run
    that saved and left no pending message is the last one, unless it has consolidated since.
    """
    runs: list[FormationOutput] = []
    while True:
        run = await run_formation(resources, identity, request)
        if run["reason"] is not None or run["waits"] or run["quarantined"]:
            runs.append(run)
        if run["reason"] is None or not (run["pending"] or run["consolidations"]):
            return runs


def formation_name(identity: Identity) -> tuple[str, ...]:
    """Return the name of a session's formation among the work in the background.

    Raises:
        InvalidInputError: if the identity has no session.
    """
    return ("formation", identity.agent_id, session_of(identity), identity.user_id or "")


def form_later(resources: Resources, identity: Identity) -> None:
    """Begin the due formations of a session in the background; a failure is logged, and the messages stay pending.

    Raises:
        InvalidInputError: if the identity has no session.
    """
    ids = {"agent_id": identity.agent_id, "session_id": session_of(identity)}

    async def form_due() -> None:
        try:
            await require_tokens(resources, identity.agent_id)
            runs = await form_pending(resources, identity, {})
        except BudgetSpentError:
            return  # the log has a warning; a job forms the session the next day
        except MnemicError as error:
            _LOG.warning("Could not form the pending messages: %s. They stay pending.", error, extra=ids)
            return
        refused: Counter[str] = Counter()
        for run in runs:
            refused.update(run["refused"])
        if refused:
            _LOG.info("Drafts of a formation were not stored: %s.", refusal_summary(refused), extra=ids)

    resources.background.begin(formation_name(identity), form_due, ids)
