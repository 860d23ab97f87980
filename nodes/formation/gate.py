"""Formation's first node: reads the inbox and decides whether there is anything to do."""

from collections.abc import Iterable
from functools import partial
from itertools import accumulate

from langgraph.runtime import Runtime

from mnemic.memory.formation.selection import writes_left
from mnemic.memory.formation.triggers import (
    facts_of_batch,
    facts_of_turn,
    first_turn,
    formation_reason,
    turn_reason,
    weighted_tokens,
)
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.leases import formation_lease, holder_of, release_lease_on_error
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.transcript import speakers
from mnemic.memory.text.shape import count_tokens
from mnemic.state.checking import validate
from mnemic.state.formation import Coverage, Inbox
from mnemic.state.graphs import FormationInput, FormationState, Lease, Waits
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.kinds import FormationReason
from mnemic.state.records import ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import inbox, leases, scopes
from mnemic.storage.transaction import ScopedTransaction


async def gate(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Take up 45 messages, 4 with 1,000 weighted tokens, or a cold session of 4; by turn, a user's words.

    If the caller insists, one message is enough. A run that is due takes a lease on the session in the same
    transaction.
    """
    identity, request = identity_of(runtime), validate(FormationInput, state)
    retry, forced = request.get("retry", False), request.get("force", False)
    async with resources.database.transaction(identity) as scoped:
        overrides, read_revision = await scopes.read_snapshot(scoped)
    settings = resources.settings.overridden(overrides)
    left = await writes_left(resources, identity, settings, retry=retry)
    lease = formation_lease(identity, holder_of(runtime), retry=retry)

    async def act(scoped: ScopedTransaction) -> tuple[_Work, dict[str, ScopeSettings]]:
        work = await _take_up(scoped, lease, settings, forced=forced or retry, by_turn=left is not None)
        return work, await scopes.scope_settings(scoped)

    async with release_lease_on_error(resources, identity, lease):
        (box, reason, waits), guided = await resources.database.write(identity, act)
        messages = box.messages
        return {
            **_nothing_yet(),
            "reason": reason,
            "waits": waits,
            "formed": len(messages),
            "pending": box.pending - len(messages),
            "quarantined": box.quarantined - (len(messages) if retry else 0),
            "lease": lease,
            "batch": [*messages],
            "guidance": _guidance(guided.values(), is_own={*speakers(messages)} <= {identity.user_id}),
            "names": {key: part.name for key, part in guided.items() if part.name},
            "read_revision": read_revision,
            "overrides": overrides,
            "extraction": settings.extraction,
            "max_facts": (facts_of_turn if left else facts_of_batch)(messages, settings),
            "max_writes": min(left, settings.writes_per_turn) if left else None,
        }


def _nothing_yet() -> FormationState:
    """What a run begins with: on a server's thread the tracked channels still hold the last run's figures.

    Made anew each time, so that no list in it is ever another run's.
    """
    return {
        "superseded": 0,
        "repeated": 0,
        "uncovered_messages": 0,
        "stored": {},
        "checks": {},
        "refused": {},
        "spent": [],
        "consolidations": [],
        "facts": [],
        "vectors": {},
        "private": False,
        "closing": [],
        "repeats": [],
        "account": Coverage(),
    }


#: Of the inbox what a run takes, and why; else what it waits for.
_Work = tuple[Inbox, FormationReason | None, Waits | None]


async def _take_up(
    scoped: ScopedTransaction, lease: Lease, settings: Settings, *, forced: bool, by_turn: bool
) -> _Work:
    read = partial(_read, scoped, lease, settings, by_turn=by_turn)
    box = await read(failed=0)
    is_retry = lease.work == "retry"
    waiting = box.quarantined if is_retry else box.pending - box.quarantined
    if by_turn:
        reason = turn_reason(box.messages, more=waiting > len(box.messages), forced=forced)
    else:
        tokens = sum(weighted_tokens(message.role, message.content) for message in box.messages)
        reason = formation_reason(box, messages=waiting, tokens=tokens, forced=forced, settings=settings)
    nothing = box._replace(messages=())
    if reason is None:
        return nothing, None, None
    failed = await leases.claim(scoped, lease, settings, forced=forced)
    if failed is None:
        return nothing, None, await leases.blocked_by(scoped, lease)
    if failed >= settings.max_attempts and not is_retry:
        alone = await read(failed=failed)
        await inbox.quarantine(scoped, [message.id for message in alone.messages])
        await leases.reset_attempts(scoped, lease)
        failed = 0
    # read under the lease: who held it until now may have formed what was read before
    box = await read(failed=failed)
    if not box.messages:
        await leases.finish(scoped, lease)
    return box, reason if box.messages else None, None


async def _read(scoped: ScopedTransaction, lease: Lease, settings: Settings, *, by_turn: bool, failed: int) -> Inbox:
    """The oldest messages, or turn, as far as they fit a prompt; half after each try that brought nothing usable.

    The last try takes one message alone, so that no other is set aside with it; further retries take another one each.
    """
    session_id = split_scope_key(lease.scope_key)[1]
    beyond, is_retry = failed - (settings.max_attempts - 1), lease.work == "retry"
    most = 1 if beyond >= 0 else max(1, settings.formation_batch_messages >> failed)
    skip = max(0, beyond) if is_retry else 0
    box = await inbox.read_inbox(scoped, session_id, limit=most, quarantined=is_retry, skip=skip)
    messages = first_turn(box.messages) if by_turn else box.messages
    spent = accumulate(count_tokens(message.content) for message in messages)
    fitting = sum(tokens <= settings.formation_batch_tokens >> failed for tokens in spent)
    return box._replace(messages=tuple(messages[: max(1, fitting)]))


def _guidance(scopes: Iterable[ScopeSettings], *, is_own: bool) -> str:
    """What the agent's, the groups' and, among themselves, the user's own scope tell the extractor."""
    shown = (scope for scope in scopes if is_own or not scope.scope_key.startswith("user:"))
    return "\n".join(scope.extraction_guidance for scope in shown if scope.extraction_guidance)
