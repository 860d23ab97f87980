"""Refinement: a session begins, or one that was broken off goes on; exact duplicates go first, read by nobody."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langgraph.runtime import Runtime

from mnemic.operations.refinement.editor import Core
from mnemic.operations.refinement.release import let_go, note_taken
from mnemic.operations.refinement.session import Refining
from mnemic.operations.run.authenticated import require_own
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.node_types import RefinementNode
from mnemic.operations.run.resources import Provider, Resources
from mnemic.policy.refinement.batching import batches
from mnemic.state.checking import input_of
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, RefinementRunningError
from mnemic.state.graphs import RefinementInput, RefinementState
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.refinement import LedgerEntry, RefinementResult
from mnemic.state.settings import Settings
from mnemic.storage import refinements, scopes
from mnemic.storage.database import Scoped
from mnemic.storage.refinements import Claim


class Due(NamedTuple):
    """What there is on a scope key."""

    overrides: dict[str, Any]
    settings: Settings
    #: The core memory as it stands.
    ledger: list[LedgerEntry]
    #: The session that has not ended, if there is one.
    running: refinements.Running | None

    @property
    def tokens(self) -> int:
        """Of the core memory."""
        return sum(entry.tokens for entry in self.ledger)

    @property
    def is_over(self) -> bool:
        """Whether it has outgrown its budget."""
        return self.tokens > self.settings.refinement_budget_tokens

    def as_result(self, key: str) -> RefinementState:
        """Its figures."""
        return {
            "scope_key": key,
            "tokens_before": self.tokens,
            "target_tokens": self.settings.refinement_target,
            "memories_before": len(self.ledger),
            "protected": sum(entry.protected for entry in self.ledger),
        }


class _Opened(NamedTuple):
    """A session that this run holds."""

    claim: Claim
    due: Due
    resumed: bool


def open_refinement(provide: Provider) -> RefinementNode:
    """Takes the scope key's session up, or begins one where that is due; or tells what there is to do."""

    async def open_refinement(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        resources, identity = await provide(), identity_of(runtime)
        asked = input_of(RefinementInput, state)
        key, forced = asked.get("scope_key") or scope_key("agent", identity.agent_id), asked.get("force", False)
        allowed = require_refinable(resources, identity, key)
        if asked.get("dry_run"):
            return {**_no_session(state), **await plan(resources, identity, key, allowed, forced=forced)}

        def held_by_this_run(opened: _Opened) -> Refining:
            return Refining(resources=resources, settings=opened.due.settings, identity=identity, claim=opened.claim)

        async def act(scoped: Scoped) -> _Opened | Due:
            opened = await _take_up(scoped, key, resources.settings, forced=forced)
            if isinstance(opened, _Opened):
                note_taken(held_by_this_run(opened))
            return opened

        opened = await resources.database.write(identity, act, only=key, categories=allowed)
        if isinstance(opened, Due):
            return {**_no_session(state), **opened.as_result(key), "outcome": "not_due", "refinement_id": None}
        refining = held_by_this_run(opened)
        async with let_go(refining):
            return await _first_look(refining, opened)

    return open_refinement


def require_refinable(resources: Resources, identity: Identity, key: str) -> tuple[str, ...]:
    """The categories that the refining role sees.

    Raises:
        InvalidInputError: the scope key is none of this identity's.
        RefusedIdentityError: others share it, and a server's client asks.
        CategoryRefusedError: the role has no allowlist, or does not read what is always in context.
    """
    split_scope_key(key)
    if key not in identity.scope_keys:
        raise InvalidInputError("scope_key: the one to refine is none of this identity's")
    require_own(identity, key)
    allowlist = resources.categories.of_role(identity.role)
    if not allowlist.standing:
        raise CategoryRefusedError("this role does not read core memories, so it cannot refine them")
    return allowlist.categories


def _no_session(state: RefinementState) -> RefinementState:
    """What the channels hold where none begins: nothing of an earlier run on the same thread."""
    stale: dict[str, Any] = dict.fromkeys(RefinementResult.__annotations__.keys() & state.keys())
    return cast(RefinementState, {**stale, "ending": None, "batches": []})


async def plan(
    resources: Resources, identity: Identity, key: str, allowed: Sequence[str], *, forced: bool
) -> RefinementState:
    """What a refinement would find, without beginning it.

    Raises:
        RefinementRunningError: one is running.
    """
    async with resources.database.scoped(identity, only=key, categories=allowed) as scoped:
        due = await look(scoped, key, resources.settings)
        duplicates = await refinements.duplicates(scoped, remove=False)
    if due.running and due.running.is_held:
        raise _running(due.running)
    would_run = due.is_over or due.running is not None or (forced and bool(due.ledger))
    return {
        **due.as_result(key),
        "outcome": "planned" if would_run else "not_due",
        "refinement_id": str(due.running.id) if due.running else None,
        "resumed": due.running is not None,
        "duplicates": duplicates,
    }


def _running(running: refinements.Running) -> RefinementRunningError:
    return RefinementRunningError(
        f"a refinement of this scope key has been running for {running.age:.0f} seconds: wait until it has ended"
    )


async def look(scoped: Scoped, key: str, settings: Settings) -> Due:
    """What there is on a scope key, and whether a session has not ended."""
    overrides = await scopes.agent_settings(scoped)
    ledger, running = await refinements.ledger(scoped), await refinements.running(scoped, key)
    return Due(overrides=overrides, settings=settings.overridden(overrides), ledger=ledger, running=running)


async def _take_up(scoped: Scoped, key: str, settings: Settings, *, forced: bool) -> _Opened | Due:
    due = await look(scoped, key, settings)
    if due.running is None and not (due.is_over or (forced and due.ledger)):
        return due
    await scoped.begin_operation("refinement")  # from here on the agent's writers come one after the other
    running, seconds = await refinements.running(scoped, key), settings.lease_seconds
    if running is None:
        claim = Claim(id=uuid4(), scope_key=key, holder=uuid4())
        target = due.settings.refinement_target
        await refinements.begin(scoped, claim, due.ledger, target=target, seconds=seconds)
        return _Opened(claim, due, resumed=False)
    claim = Claim(id=running.id, scope_key=key, holder=uuid4())
    if running.is_held or not await refinements.take_over(scoped, claim, seconds=seconds):
        raise _running(running)
    return _Opened(claim, due, resumed=True)


async def _first_look(refining: Refining, opened: _Opened) -> RefinementState:
    await refining.cut("dedup", _remove_duplicates)
    ledger = await refining.read(refinements.ledger)
    # in a thread: of 8,000 memories it takes a second
    shown = await asyncio.to_thread(batches, ledger, tokens=refining.settings.refinement_batch_tokens)
    return {
        "scope_key": refining.claim.scope_key,
        "refinement_id": str(refining.claim.id),
        "resumed": opened.resumed,
        "holder": str(refining.claim.holder),
        "overrides": opened.due.overrides,
        "handles": {},  # a memory has its number once it is shown
        "batches": [_ids(batch) for batch in shown],
        "batch": 1,
        "shown": [],
        "turns": [],
        "ending": None if shown else "finished",  # all that there was may be gone when a session is resumed
    }


async def _remove_duplicates(scoped: Scoped, _: Core) -> int:
    return await refinements.duplicates(scoped, remove=True)


def _ids(batch: Sequence[LedgerEntry]) -> list[str]:
    return [str(entry.id) for entry in batch]
