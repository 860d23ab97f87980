"""What the steps of one refinement share: the session, its scope key, its transactions, and how it is let go."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.nodes.handles import Handles
from mnemic.nodes.resources import Provider, Resources
from mnemic.nodes.typing import RefinementNode
from mnemic.nodes.who import identity_of
from mnemic.policy.knife import gives_up, protectable, removable
from mnemic.prompts import knife as told
from mnemic.state.errors import KnifeRefusedError, MnemicError
from mnemic.state.graphs import RefinementState
from mnemic.state.identity import Identity
from mnemic.state.refinement import Budget, LedgerEntry
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.database import Scoped
from mnemic.storage.refinements import Session

Result = TypeVar("Result")


@dataclass(frozen=True)
class Refining:
    """One session as the run that holds it works on it: its scope key and no other exists in its transactions."""

    resources: Resources
    #: The agent's own.
    settings: Settings
    identity: Identity
    session: Session
    handles: Handles = field(default_factory=Handles)

    async def read(self, act: Callable[[Scoped], Awaitable[Result]]) -> Result:
        """What `act` reads."""
        async with self.resources.database.scoped(self.identity, only=self._key, categories=self.allowed) as scoped:
            return await act(scoped)

    async def write(self, act: Callable[[Scoped], Awaitable[Result]]) -> Result:
        """What `act` returns once it is committed; it may run more than once."""
        return await self.resources.database.write(self.identity, act, only=self._key, categories=self.allowed)

    async def ledger(self) -> list[LedgerEntry]:
        """The core memory as it is now, numbered."""
        return self.handles.numbered(await self.read(refinements.ledger))

    async def cut(self, reason: str, act: Callable[[Scoped, "Core"], Awaitable[Result]]) -> tuple[Result, "After"]:
        """One operation of the knife: what `act` returns, and what there is after it.

        Raises:
            KnifeRefusedError: what was asked may not be done; nothing was written.
            RefinementOverError: the session has ended, or is no longer this run's.
        """

        async def operation(scoped: Scoped) -> tuple[Result, list[LedgerEntry]]:
            await refinements.begin_knife(scoped, self.session, reason)
            core = Core(self, scoped, await refinements.ledger(scoped))
            return await act(scoped, core), await refinements.ledger(scoped)

        result, after = await self.write(operation)
        return result, After(self, after)

    def budget(self, entries: Sequence[LedgerEntry], progress: refinements.Progress) -> Budget:
        """How much there is, and may still be done."""
        settings = self.settings
        most = removable(settings.refinement_removed_percent, progress.memories_before)
        return Budget(
            now=sum(entry.tokens for entry in entries),
            target=settings.refinement_target_tokens,
            protected=sum(entry.tokens for entry in entries if entry.protected),
            most_protected=protectable(settings.refinement_protected_percent, settings.refinement_target_tokens),
            removable=max(0, most - progress.removed),
        )

    @property
    def _key(self) -> str:
        return self.session.scope_key

    @property
    def allowed(self) -> tuple[str, ...]:
        """The categories that the role may read."""
        return self.resources.categories.of_role(self.identity.role).categories


class After(NamedTuple):
    """The core memory after an operation."""

    refining: Refining
    entries: list[LedgerEntry]

    def shown(self, memory_id: UUID) -> LedgerEntry:
        """A memory as it is now, which the model is about to be told of."""
        return self.refining.handles.numbered(entry for entry in self.entries if entry.id == memory_id)[0]

    @property
    def usage(self) -> str:
        """What every answer ends with."""
        tokens = sum(entry.tokens for entry in self.entries)
        return told.usage(tokens, self.refining.settings.refinement_target_tokens, len(self.entries))


class Core:
    """The core memory inside one operation, and the rules by which numbers become memories."""

    def __init__(self, refining: Refining, scoped: Scoped, entries: Sequence[LedgerEntry]) -> None:
        self._refining = refining
        self._scoped = scoped
        #: As they are now.
        self.entries = {entry.id: entry for entry in entries}

    def held(self, *numbers: int) -> list[LedgerEntry]:
        """The memories behind these numbers, as the model knows them.

        Raises:
            KnifeRefusedError: a number is named twice or unknown, or its memory is gone, was changed meanwhile, or is
                protected; all of them are named.
        """
        if twice := [number for number in dict.fromkeys(numbers) if numbers.count(number) > 1]:
            raise KnifeRefusedError(told.repeated(twice))
        found = {number: self._living(number) for number in numbers}
        if gone := [number for number, entry in found.items() if entry is None]:
            raise KnifeRefusedError(told.unknown(gone))
        entries = [entry for entry in found.values() if entry is not None]
        if fixed := [entry.handle for entry in entries if entry.protected]:
            raise KnifeRefusedError(told.is_protected(fixed))
        for entry in entries:
            self._require_unchanged(entry)
        return entries

    async def gives_up(self, replaced: Sequence[LedgerEntry], text: str) -> bool:
        """Whether a text takes away what these said when the session began: many small steps lose no more than one."""
        said = await refinements.originals(self._scoped, self._refining.session, replaced)
        return gives_up([content for content, _ in said], text, about=[subject for _, subject in said])

    async def take_away(self, memories: int) -> int:
        """Counts memories that are not kept elsewhere; how many more there may be.

        Raises:
            KnifeRefusedError: that would be too many.
        """
        removed, before = await refinements.remove(self._scoped, self._refining.session, memories)
        most = removable(self._refining.settings.refinement_removed_percent, before)
        if removed > most:
            raise KnifeRefusedError(told.no_more_removed(most))
        return most - removed

    def _living(self, number: int) -> LedgerEntry | None:
        shown = self._refining.handles.shown(number)
        entry = self.entries.get(shown.id) if shown else None
        return replace(entry, handle=number) if entry else None

    def _require_unchanged(self, entry: LedgerEntry) -> None:
        shown = self._refining.handles.shown(entry.handle)
        if shown is not None and shown.version != entry.version:
            raise KnifeRefusedError(told.changed(entry.handle))


#: Makes the tools of one session; a room further out has them.
KnifeFactory = Callable[[Refining], Sequence[BaseTool]]


async def refining_of(provide: Provider, state: RefinementState, runtime: Runtime[Identity]) -> Refining:
    """The session of this run."""
    resources = await provide()
    return Refining(
        resources=resources,
        settings=resources.settings.overridden(state["overrides"]),
        identity=identity_of(runtime),
        session=Session(
            id=UUID(state["refinement_id"] or ""), scope_key=state["scope_key"], holder=UUID(state["holder"])
        ),
        handles=Handles.from_plain(state.get("handles", {})),
    )


def held(provide: Provider, node: RefinementNode) -> RefinementNode:
    """The node, leaving the session to be resumed where it fails or is cancelled."""

    async def run(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        async with let_go(await refining_of(provide, state, runtime)):
            return await node(state, runtime)

    return run


@asynccontextmanager
async def let_go(refining: Refining) -> AsyncIterator[None]:
    """Lets others resume the session where the block fails or is cancelled; a killed run's is free after its lease."""
    try:
        yield
    except (MnemicError, asyncio.CancelledError):
        await asyncio.shield(_release(refining))
        raise


async def _release(refining: Refining) -> None:
    async def act(scoped: Scoped) -> Any:
        await refinements.release(scoped, refining.session)

    with suppress(MnemicError):  # the failure itself is what the caller must see
        await refining.write(act)


#: What a call's run takes up: a cancellation between two nodes reaches neither, nor `let_go`.
_taken: ContextVar[list[Refining] | None] = ContextVar("taken", default=None)


def note_taken(refining: Refining) -> None:
    """Tells a surrounding `letting_go` what its run holds, or will where the transaction is committed."""
    taken = _taken.get()
    if taken is not None:
        taken.append(refining)


@asynccontextmanager
async def letting_go() -> AsyncIterator[None]:
    """Leaves the session of a run within it to be resumed where that is cancelled, at any point of it."""
    taken: list[Refining] = []
    token = _taken.set(taken)
    try:
        yield
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.gather(*map(_release, taken)))
        raise
    finally:
        _taken.reset(token)
