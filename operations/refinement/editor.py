"""The core memory inside one operation of the knife, and the rules by which a model's numbers become memories."""

from collections.abc import Sequence
from dataclasses import replace

from mnemic.operations.refinement.handles import Handles
from mnemic.policy.refinement.limits import given_up, removable
from mnemic.prompts import refinement_tools as told
from mnemic.state.errors import KnifeRefusedError
from mnemic.state.refinement import LedgerEntry
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.database import Scoped
from mnemic.storage.refinements import Claim


class Core:
    """What one operation works on, and may do."""

    def __init__(
        self,
        scoped: Scoped,
        entries: Sequence[LedgerEntry],
        *,
        claim: Claim,
        handles: Handles,
        settings: Settings,
    ) -> None:
        self._scoped = scoped
        self._claim = claim
        self._handles = handles
        self._settings = settings
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

    async def given_up(self, replaced: Sequence[LedgerEntry], text: str) -> list[int]:
        """The numbers of what a text takes away, once for each memory of before the session that went into it.

        It is measured by what these said when the session began, so that many small steps lose no more than one. What
        an earlier step has taken away is not taken away again.
        """
        numbers: list[int] = []
        said: list[tuple[str, str]] = []
        was_gone: list[bool] = []
        for entry in replaced:
            originals = await refinements.originals(self._scoped, self._claim, entry)
            numbers += [entry.handle] * len(originals)
            said += originals
            was_gone += _given_up(originals, entry.content)
        is_gone = _given_up(said, text)
        return [number for number, was, now in zip(numbers, was_gone, is_gone, strict=True) if now and not was]

    async def take_away(self, numbers: Sequence[int]) -> int:
        """Counts memories that are not kept elsewhere; how many more there may be.

        Raises:
            KnifeRefusedError: that would be too many.
        """
        removed, before = await refinements.count_removed(self._scoped, self._claim, len(numbers))
        most = removable(self._settings.refinement_removed_percent, before)
        if removed > most:
            raise KnifeRefusedError(told.no_more_removed(most, numbers))
        return most - removed

    def _living(self, number: int) -> LedgerEntry | None:
        shown = self._handles.shown(number)
        entry = self.entries.get(shown.id) if shown else None
        return replace(entry, handle=number) if entry else None

    def _require_unchanged(self, entry: LedgerEntry) -> None:
        shown = self._handles.shown(entry.handle)
        if shown is not None and shown.version != entry.version:
            raise KnifeRefusedError(told.changed(entry.handle))


def _given_up(said: Sequence[tuple[str, str]], text: str) -> list[bool]:
    return given_up([content for content, _ in said], text, about=[subject for _, subject in said])
