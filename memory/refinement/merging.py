"""The category of a merged memory."""

from collections.abc import Sequence

from mnemic.memory.runtime.categories import Categories


def merged_category(names: Sequence[str], categories: Categories) -> str:
    """Return the category of a merged memory: the one that the fewest roles read, then the most frequent one."""

    def rank(name: str) -> tuple[int, int, int]:
        readers = sum(name in allowlist.categories for allowlist in categories.allowlists.values())
        return readers, -names.count(name), names.index(name)

    return min(dict.fromkeys(names), key=rank)
