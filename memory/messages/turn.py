"""A turn of an agent, by its host: the context before it, what is written once it is over, and what is formed of it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from mnemic.memory.messages.incoming import HostMessage, Unstorable, last_question, to_messages
from mnemic.memory.runtime.budget import require_tokens
from mnemic.memory.runtime.graph import AnyGraph, run_graph, run_leased
from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.leases import formation_lease
from mnemic.memory.runtime.resources import Resources
from mnemic.prompts.repair import refusal_summary
from mnemic.state.errors import (
    BudgetSpentError,
    ConcurrentChangeError,
    InvalidInputError,
    MissingIdentityError,
    MnemicError,
)
from mnemic.state.graphs import FormationOutput, RecallOutput, SearchMode
from mnemic.state.identity import Identity
from mnemic.state.records import Observed
from mnemic.state.supervisor import MemoryState
from mnemic.storage import inbox, revisions
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: Times in a row that other runs may be faster before a caller hears of it.
OVERTAKEN = 3


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """How a host recalls, turn after turn."""

    #: Whose allowlist holds; None: that of the identity's own role.
    role: str | None = None
    search: SearchMode = "auto"
    #: Tokens that the retrieved lines may take; None: the setting.
    budget_tokens: int | None = None

    def in_role(self, identity: Identity) -> Identity:
        """The run's identity in this role."""
        return identity.model_copy(update={"role": self.role}) if self.role else identity


async def recall_turn(
    graph: AnyGraph, identity: Identity, messages: Sequence[HostMessage], options: RecallOptions | None = None
) -> MemoryState:
    """What memory says to the turn that answers the last message of a user.

    Raises:
        InvalidInputError: no list of messages, or the last one cannot be used.
    """
    options = options or RecallOptions()
    question, message_id = last_question(messages)
    given = {"question": question, "search": options.search, "budget_tokens": options.budget_tokens}
    recalled: RecallOutput = await run_graph(graph, given, options.in_role(identity))
    return {
        "memory_context": {**recalled["context"], "message_id": message_id},
        "memory_revision": recalled["revision"],
        "memory_searched": recalled["searched"],
    }


async def begin_turn(recalling: Coroutine[Any, Any, MemoryState], storing: Coroutine[Any, Any, None]) -> MemoryState:
    """Return what the recall returns, and store the turn's first messages meanwhile.

    From here on no other middleware or node can take the user's message away, and no failing model.
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

    Raises:
        InvalidInputError: no session in the identity, a message that cannot be used, or the agent's history has not
            come to this revision; nothing was written.
        MissingIdentityError: a message of a user belongs to no user; nothing was written.
        RefusedIdentityError: a message names another speaker; nothing was written.
    """
    observed = await _store(resources, identity, messages, revision=revision, several_speakers=several_speakers)
    await resources.uses.write(resources.database, identity)
    resources.write_events()
    return observed


async def _store(
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
        refused: as of `to_messages`; if no message of a user is left, the first of them is raised.
    """
    session_id = session_of(identity)
    # a whole conversation, turn after turn: 17 ms for 1,000 messages
    zone = resources.zone_of(identity)
    read = partial(to_messages, several_speakers=several_speakers, refused=refused, zone=zone)
    new = await asyncio.to_thread(read, messages, identity)
    if refused and not any(message.role == "user" for message in new):  # answers alone tell nothing
        raise refused[0]

    async def act(scoped: ScopedTransaction) -> Observed:
        stored_id = scoped.stored_session_id or session_id
        observed = await inbox.observe(scoped, stored_id, new)
        if revision is not None:
            await revisions.advance(scoped, stored_id, revision, shown)
        return observed

    shown = resources.shown.read(identity) if revision is not None else frozenset()
    observed = await resources.database.write(identity, act)
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
        InvalidInputError: the identity has no session.
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
    """Store the thread's messages for formation, each once, and that changes up to `revision` were announced.

    A failure costs a warning and nothing else: hosts resend the whole list, so the end of the turn or the next turn
    brings the missing messages. A message that cannot be stored is left out, because it stays in the list for good.

    Raises:
        InvalidInputError: the identity has no session.
    """
    session_of(identity)
    refused: list[Unstorable] = []
    store = partial(_store, resources, identity, messages, several_speakers=several_speakers, refused=refused)
    try:
        try:
            await store(revision=revision)
        except InvalidInputError:
            if revision is None:
                raise
            # such as that of a thread whose database was set back; the messages are not to be lost with it
            refused.clear()
            await store(revision=None)
        if refused:
            _LOG.warning("messages that cannot be stored are left out: %d, such as %s", len(refused), refused[0])
    except (InvalidInputError, MissingIdentityError) as error:
        _LOG.warning("the messages of this turn cannot be stored: %s", error)
    except MnemicError as error:
        _LOG.warning("the messages of this turn were not stored; they will be, when they come again: %s", error)


async def run_formation(
    resources: Resources, graph: AnyGraph, identity: Identity, *, force: bool, retry: bool
) -> FormationOutput:
    """Run the formation graph once on a session; again if another run was faster, at most `OVERTAKEN` times in all."""
    for _ in range(OVERTAKEN - 1):
        with suppress(ConcurrentChangeError):
            return await _run_once(resources, graph, identity, force=force, retry=retry)
    return await _run_once(resources, graph, identity, force=force, retry=retry)


async def _run_once(
    resources: Resources, graph: AnyGraph, identity: Identity, *, force: bool, retry: bool
) -> FormationOutput:
    lease = formation_lease(identity, uuid4(), retry=retry)
    run: FormationOutput = await run_leased(resources, graph, {"force": force, "retry": retry}, identity, lease)
    return run


async def form_pending(
    resources: Resources, graph: AnyGraph, identity: Identity, *, force: bool, retry: bool
) -> list[FormationOutput]:
    """The runs until nothing is due, as `Mnemic.form` returns them.

    The last look finds messages of turns that ended meanwhile: their own formation would be this one.
    """
    runs: list[FormationOutput] = []
    while True:
        run = await run_formation(resources, graph, identity, force=force, retry=retry)
        if run["reason"] is not None or run["waits"] or run["quarantined"]:
            runs.append(run)
        if run["reason"] is None:
            return runs


def formation_name(identity: Identity) -> tuple[str, ...]:
    """What the background knows a session's formation by.

    Raises:
        InvalidInputError: the identity has no session.
    """
    return ("formation", identity.agent_id, session_of(identity), identity.user_id or "")


def form_later(resources: Resources, graph: AnyGraph, identity: Identity) -> None:
    """Begins to form what is due, and does not wait for it; what goes wrong is logged, and the messages stay pending.

    Raises:
        InvalidInputError: the identity has no session.
    """
    ids = {"agent_id": identity.agent_id, "session_id": session_of(identity)}

    async def form_due() -> None:
        try:
            await require_tokens(resources, identity.agent_id)
            runs = await form_pending(resources, graph, identity, force=False, retry=False)
        except BudgetSpentError:
            return  # the log has a warning; a job forms the session the next day
        except MnemicError as error:
            _LOG.warning("what is pending was not formed, and stays pending: %s", error, extra=ids)
            return
        if refused := sum((Counter(run["refused"]) for run in runs), Counter[str]()):
            _LOG.info("Drafts of a formation were not stored: %s.", refusal_summary(refused), extra=ids)

    resources.background.begin(formation_name(identity), form_due, ids)
