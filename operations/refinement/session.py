"""One refinement session: its transactions, and the rules by which a model's numbers become memories."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar
from uuid import UUID

from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider, Resources
from mnemic.policy.refinement.limits import lost_memories, protectable, removable
from mnemic.state.errors import RefinementRefusedError
from mnemic.state.identity import Identity
from mnemic.state.refinement import Budget, Handles, LedgerEntry, RefinementState
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction

Result = TypeVar("Result")


@dataclass(frozen=True)
class RefinementSession:
    """A session as the run that holds it works on it: its transactions see its scope key and no other."""

    resources: Resources
    #: The agent's own.
    settings: Settings
    identity: Identity
    claim: Claim
    handles: Handles = field(default_factory=Handles)

    async def read(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """What `act` reads."""
        async with self.resources.database.scoped(self.identity, only=self._key, categories=self.allowed) as scoped:
            return await act(scoped)

    async def write(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """What `act` returns once it is committed; it may run more than once."""
        return await self.resources.database.write(self.identity, act, only=self._key, categories=self.allowed)

    async def run_operation(
        self, reason: str, act: Callable[["CoreMemoryEditor"], Awaitable[Result]]
    ) -> tuple[Result, list[LedgerEntry]]:
        """Does one operation: what `act` returns, and the core memory after it.

        Raises:
            RefinementRefusedError: what the call asks for may not be done; nothing was written.
            RefinementOverError: the session has ended, or is no longer this run's.
        """

        async def operation(scoped: ScopedTransaction) -> tuple[Result, list[LedgerEntry]]:
            await refinements.begin_act(scoped, self.claim, reason)
            editor = CoreMemoryEditor(self, scoped, await refinements.ledger(scoped))
            return await act(editor), await refinements.ledger(scoped)

        return await self.write(operation)

    def show(self, entries: Iterable[LedgerEntry], memory_id: UUID) -> LedgerEntry:
        """A memory as it is now, which the model is about to be told of."""
        return self.handles.number(entry for entry in entries if entry.id == memory_id)[0]

    def usage(self, entries: Sequence[LedgerEntry]) -> str:
        """How much there is: what every answer to an edit ends with."""
        tokens = sum(entry.tokens for entry in entries)
        return f"Now {tokens:,} tokens in {len(entries)} memories; target {self.settings.refinement_target:,}."

    def budget(self, entries: Sequence[LedgerEntry], progress: refinements.Progress) -> Budget:
        """How much there is, and may still be done."""
        most_removed = removable(self.settings.refinement_removed_percent, progress.memories_before)
        return Budget(
            now=sum(entry.tokens for entry in entries),
            target=self.settings.refinement_target,
            protected=sum(entry.tokens for entry in entries if entry.protected),
            most_protected=self.most_protected,
            removable=max(0, most_removed - progress.removed),
        )

    @property
    def most_protected(self) -> int:
        """Tokens that may be protected."""
        return protectable(self.settings.refinement_protected_percent, self.settings.refinement_target)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The categories that the role may read."""
        return self.resources.categories.of_role(self.identity.role).categories

    @property
    def _key(self) -> str:
        return self.claim.scope_key


class CoreMemoryEditor:
    """The core memory inside one operation, and what may be done to it."""

    def __init__(self, session: RefinementSession, scoped: ScopedTransaction, entries: Sequence[LedgerEntry]) -> None:
        self.scoped = scoped
        #: As they are now.
        self.entries = {entry.id: entry for entry in entries}
        self._session = session

    def require_editable(self, *numbers: int) -> list[LedgerEntry]:
        """The memories behind these numbers, as the model was shown them.

        Raises:
            RefinementRefusedError: a number is named twice or unknown, or its memory is gone, was changed meanwhile,
                or is protected; all of them are named.
        """
        if twice := [number for number in dict.fromkeys(numbers) if numbers.count(number) > 1]:
            raise RefinementRefusedError(f"{bracketed(twice)} is named more than once: name each memory once")
        found = {number: self._living(number) for number in numbers}
        if gone := [number for number, entry in found.items() if entry is None]:
            refuse_unknown(*gone)
        entries = [entry for entry in found.values() if entry is not None]
        if fixed := [entry.handle for entry in entries if entry.protected]:
            raise RefinementRefusedError(f"{bracketed(fixed)} is protected: leave it as it is, and out of the call")
        for entry in entries:
            self._require_unchanged(entry)
        return entries

    def twin(self, text: str, *, of: LedgerEntry | None = None) -> str | None:
        """How the model knows the living memory that says this already; of an update, another one of its kind."""
        for entry in self.entries.values():
            is_same_kind = of is None or (entry.kind, entry.subject_user_id) == (of.kind, of.subject_user_id)
            if entry.content == text and is_same_kind and (of is None or entry.id != of.id):
                number = self._session.handles.number_of(entry.id)  # None: of a conversation meanwhile, and not shown
                return f"[{number}]" if number else "another memory"
        return None

    async def count_lost(self, replaced: Sequence[LedgerEntry], text: str) -> tuple[list[int], int]:
        """Counts what a text loses of the memories that it replaces; their numbers, and how many more may be lost.

        There is one number for each memory of before the session that went into them. A text is measured by what these
        said when the session began, so many small steps lose no more than one. What an earlier step has lost does not
        count again.

        Raises:
            RefinementRefusedError: the session would lose too many.
        """
        claim = self._session.claim
        numbers: list[int] = []
        before: list[tuple[str, str]] = []
        was_lost: list[bool] = []
        for entry in replaced:
            originals = await refinements.originals(self.scoped, claim, entry)
            numbers += [entry.handle] * len(originals)
            before += originals
            was_lost += _lost(originals, entry.content)
        now_lost = _lost(before, text)
        lost = [number for number, was, now in zip(numbers, was_lost, now_lost, strict=True) if now and not was]
        removed, memories = await refinements.count_removed(self.scoped, claim, len(lost))
        most = removable(self._session.settings.refinement_removed_percent, memories)
        if removed > most:
            raise RefinementRefusedError(
                f"a session may remove {most} memories and no more: keep what {bracketed(lost)} says, in fewer words"
            )
        return lost, most - removed

    def _living(self, number: int) -> LedgerEntry | None:
        shown = self._session.handles.shown.get(number)
        entry = self.entries.get(shown.id) if shown else None
        return replace(entry, handle=number) if entry else None

    def _require_unchanged(self, entry: LedgerEntry) -> None:
        if self._session.handles.shown[entry.handle].version != entry.version:
            raise RefinementRefusedError(
                f"[{entry.handle}] was changed by somebody else meanwhile: read it again with search_memories, then "
                "decide"
            )


def _lost(originals: Sequence[tuple[str, str]], text: str) -> list[bool]:
    return lost_memories([content for content, _ in originals], text, about=[subject for _, subject in originals])


def refuse_unknown(*numbers: int) -> NoReturn:
    """Refuses numbers that were not shown, or whose memories have gone.

    Raises:
        RefinementRefusedError: always.
    """
    raise RefinementRefusedError(
        f"there is no memory {bracketed(numbers)}: use numbers of the ledger whose memories still exist"
    )


def bracketed(numbers: Sequence[int]) -> str:
    """`[3], [7]`, each once."""
    return ", ".join(f"[{number}]" for number in dict.fromkeys(numbers))


#: Makes the tools of one session; the room of tools has them.
ToolFactory = Callable[[RefinementSession], Sequence[BaseTool]]


async def refinement_session(
    provide: Provider, state: RefinementState, runtime: Runtime[Identity]
) -> RefinementSession:
    """The session of this run."""
    resources = await provide()
    return RefinementSession(
        resources=resources,
        settings=resources.settings.overridden(state["overrides"]),
        identity=identity_of(runtime),
        claim=Claim(id=UUID(state["refinement_id"] or ""), scope_key=state["scope_key"], holder=state["lease"].holder),
        handles=Handles(dict(state["handles"].shown)),
    )
