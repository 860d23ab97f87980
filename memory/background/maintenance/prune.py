"""Deletes old checkpoints of threads that are no longer used, if that is set."""

from contextlib import suppress
from typing import Final

from mnemic.memory.background.maintenance.step import Maintenance, StepOutcome
from mnemic.storage import maintenance
from mnemic.storage.threads import ThreadOwner, ThreadSaver

#: Threads that one query returns.
_PAGE_SIZE: Final = 500


async def prune(run: Maintenance) -> StepOutcome:
    """Delete all but the latest checkpoint of each thread without a new one for `thread_prune_days`."""
    if run.settings.thread_prune_days is None:
        return StepOutcome({})
    pruned, after = 0, ("", "")
    while page := await _page(run, run.settings.thread_prune_days, after):
        for owner, thread_id in page:
            pruned += run.is_dry_run or await _prune(run, owner, thread_id)
        owner, thread_id = page[-1]
        after = (owner.user_id, thread_id)
    return StepOutcome({"threads": pruned})


async def _page(run: Maintenance, days: int, after: tuple[str, str]) -> list[tuple[ThreadOwner, str]]:
    async with run.resources.database.transaction(run.identity) as tx:
        return await maintenance.stale_threads(tx, days, after, _PAGE_SIZE)


async def _prune(run: Maintenance, owner: ThreadOwner, thread_id: str) -> bool:
    # LangGraph refuses a thread with channels that are kept as changes: it needs its history
    with suppress(NotImplementedError):
        await ThreadSaver(run.resources.database, owner).aprune([thread_id])
        return True
    return False
