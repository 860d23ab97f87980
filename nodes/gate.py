"""Formation's first node: reads the inbox and decides whether there is anything to do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from langgraph.runtime import Runtime
from pydantic import TypeAdapter

from mnemic.nodes.holding import formation_lease
from mnemic.nodes.lines import speakers
from mnemic.nodes.resources import Provider
from mnemic.nodes.turn_day import turn_day
from mnemic.nodes.typing import FormationNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import to_plain
from mnemic.policy.tokens import count_tokens, weighted_tokens
from mnemic.policy.triggers import facts_of_batch, formation_reason
from mnemic.policy.turns import facts_of_turn, first_turn, turn_reason
from mnemic.state.checking import checked
from mnemic.state.graphs import FormationInput, FormationReason, FormationState, Waits
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Inbox, Message, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import inbox, leases, scopes
from mnemic.storage.database import Scoped
from mnemic.storage.leases import Lease

_INPUT = TypeAdapter(FormationInput)


def gate(provide: Provider) -> FormationNode:
    """At least 4 messages, and 45 of them, 1,000 weighted tokens, a cold session, or a caller who insists.

    Turn by turn, a user's words are enough. A run that is due takes a lease on the session in the same transaction.
    """

    async def gate(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        lease = formation_lease(identity)
        forced = checked(_INPUT, state).get("force", False)
        async with resources.database.scoped(identity) as scoped:
            overrides = await scopes.agent_settings(scoped)
        settings = resources.settings.overridden(overrides)
        day = await turn_day(resources, identity, settings)

        async def act(scoped: Scoped) -> FormationState:
            work = await _take_up(scoped, lease, settings, forced=forced, by_turn=day is not None)
            guided = await scopes.scope_settings(scoped)
            return {
                "reason": work.reason,
                "waits": work.waits,
                "formed": len(work.batch),
                "pending": work.left,
                "set_aside": min(work.set_aside, work.left),  # they come last
                "overrides": overrides,
                "guidance": _guidance(guided.values(), is_own={*speakers(work.batch)} <= {identity.user_id}),
                "names": {key: part.name for key, part in guided.items() if part.name},
                "batch": to_plain(Message, work.batch),
                "extraction": settings.extraction,
                "max_facts": (facts_of_turn if day else facts_of_batch)(work.batch, settings),
                "max_writes": min(day.left, settings.writes_per_turn) if day else None,
            }

        return {**_nothing_yet(), "lease": str(lease.holder), **await resources.database.write(identity, act)}

    return gate


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What this run has before it."""

    pending: int
    set_aside: int
    reason: FormationReason | None = None
    waits: Waits | None = None
    batch: tuple[Message, ...] = ()

    @property
    def left(self) -> int:
        """Messages that wait after this run."""
        return self.pending - len(self.batch)


async def _take_up(scoped: Scoped, lease: Lease, settings: Settings, *, forced: bool, by_turn: bool) -> _Work:
    read = partial(_read, scoped, lease, settings, forced=forced, by_turn=by_turn)
    box = await read()
    reason = _reason(box, settings, forced=forced, by_turn=by_turn)
    idle = _Work(pending=box.pending, set_aside=box.set_aside)
    if reason is None:
        return idle
    failed = await leases.claim(scoped, lease, settings, forced=forced)
    if failed is None:
        return replace(idle, waits=await leases.waits_for(scoped, lease))
    if failed >= settings.tries:
        hopeless = await read(failed=settings.tries - 1)
        await inbox.set_aside(scoped, [message.id for message in hopeless.messages])
        failed = await leases.begin_anew(scoped, lease)
    # read under the lease: who held it until now may have formed what was read before
    box = await read(failed=failed)
    if not box.messages:
        await leases.finish(scoped, lease)
        return _Work(pending=box.pending, set_aside=box.set_aside)
    return _Work(pending=box.pending, set_aside=box.set_aside, reason=reason, batch=box.messages)


def _reason(box: Inbox, settings: Settings, *, forced: bool, by_turn: bool) -> FormationReason | None:
    waiting = box.pending if forced else box.pending - box.set_aside
    if by_turn:
        return turn_reason(box.messages, more=waiting > len(box.messages), forced=forced)
    return formation_reason(
        messages=waiting,
        tokens=sum(weighted_tokens(message.role, message.content) for message in box.messages),
        idle=box.idle,
        forced=forced,
        settings=settings,
    )


async def _read(
    scoped: Scoped, lease: Lease, settings: Settings, *, forced: bool, by_turn: bool, failed: int = 0
) -> Inbox:
    """The oldest messages, or turn, as far as they fit a prompt; half after each try that brought nothing usable."""
    session_id = split_scope_key(lease.scope_key)[1]
    most = max(1, settings.formation_batch_messages >> failed)
    box = await inbox.read_inbox(scoped, session_id, most=most, with_set_aside=forced)
    messages = first_turn(box.messages) if by_turn else box.messages
    return replace(box, messages=_fitting(messages, settings.formation_batch_tokens >> failed))


def _fitting(messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
    """The oldest messages that fit into one prompt, and one at least."""
    spent = list(accumulate(count_tokens(message.content) for message in messages))
    return tuple(message for place, message in enumerate(messages) if place == 0 or spent[place] <= budget)


def _guidance(scopes: Iterable[ScopeSettings], *, is_own: bool) -> str:
    """What the agent's, the groups' and, among themselves, the user's own scope tell the extractor."""
    shown = (scope for scope in scopes if is_own or not scope.scope_key.startswith("user:"))
    return "\n".join(scope.extraction_guidance for scope in shown if scope.extraction_guidance)


def _nothing_yet() -> FormationState:
    """What a run begins with: on a server's thread the channels still hold the last run's figures."""
    return {"stored": {}, "superseded": 0, "repeated": 0, "checks": {}, "consolidations": []}
