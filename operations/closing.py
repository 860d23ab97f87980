"""What has ended of what texts rest on."""

from collections.abc import Sequence

from mnemic.policy.formation.sharing import content_tokens
from mnemic.policy.text.details import details
from mnemic.policy.text.kept import missing_details
from mnemic.state.records import Outdated
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction


async def still_outdated(scoped: ScopedTransaction, keys: Sequence[str]) -> list[Outdated]:
    """What no longer holds of what the texts of these scope keys rest on.

    A fact that was put into other words, or together with another one, holds on: its successor says all of it.
    """
    found = await memories.outdated(scoped, keys)
    held = [row for row in found if row.now is None or not _says_all(row.now, row.content)]
    # the moments of one operation come in any order, and prompts are to be the same every time
    return sorted(held, key=lambda row: (row.since.date(), row.content, row.now or "", row.part_id))


def _says_all(text: str, old: str) -> bool:
    """Whether a text has the details of another one, and all but a fifth of its telling words."""
    told = content_tokens(old)
    if details(text).negated != details(old).negated or missing_details([old], text):
        return False
    return 5 * len(told - content_tokens(text)) <= len(told)
