"""Every operation by its name, and what it is held against."""

from collections.abc import Mapping

from benchmarks.latency.by_hand import ByHand
from benchmarks.latency.peer_store import StorePeer
from benchmarks.latency.product import Product
from benchmarks.latency.timing import Figures, Operation

SEARCH, CONVERSATION, INSERT, USES = (
    "by hand: hybrid search",
    "by hand: add conversation",
    "by hand: 100 memories",
    "by hand: note 10 uses",
)
STORE_SEARCH, STORE_BATCH, STORE_USES = (
    "PostgresStore: search",
    "PostgresStore: batch of 100",
    "PostgresStore: UPDATE of 10",
)
MEM0_SEARCH = "mem0: search"

#: The same job by hand, for every operation.
BY_HAND: Mapping[str, str] = {
    "memory_query": SEARCH,
    SEARCH: SEARCH,
    STORE_SEARCH: SEARCH,
    MEM0_SEARCH: SEARCH,
    "automatic recall": SEARCH,
    "recall by default": SEARCH,
    "add conversation": CONVERSATION,
    CONVERSATION: CONVERSATION,
    "100 memories": INSERT,
    "100 memories, 500 relations": INSERT,
    INSERT: INSERT,
    STORE_BATCH: INSERT,
    "note 10 uses": USES,
    USES: USES,
    STORE_USES: USES,
}


def reading(product: Product, by_hand: ByHand, store: StorePeer) -> dict[str, Operation]:
    """Return the operations that change nothing, so that every call finds the same table."""
    return {
        "memory_query": product.memory_query,
        SEARCH: by_hand.memory_query,
        STORE_SEARCH: store.search,
        "automatic recall": product.recall,
        "recall by default": product.recall_by_default,
    }


def writing(product: Product, by_hand: ByHand, store: StorePeer) -> dict[str, Operation]:
    """Return the operations that add rows."""
    return {
        "add conversation": product.add_conversation,
        CONVERSATION: by_hand.add_conversation,
        "100 memories": product.insert_100,
        "100 memories, 500 relations": product.insert_100_related,
        INSERT: by_hand.insert_100,
        STORE_BATCH: store.insert_100,
        "note 10 uses": product.note_use,
        USES: by_hand.note_use,
        STORE_USES: store.note_use,
    }


def cpu_ratio(figures: Mapping[str, Figures], name: str, other: str | None = None) -> float:
    """How often the CPU of an operation holds another's: by default, of the same by hand."""
    return figures[name].cpu / figures[other or BY_HAND[name]].cpu
