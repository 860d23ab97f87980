"""Vectors of entries that were stored without one. The caller owns the transaction.

A vector changes no memory, so it is filled without an operation and leaves no row in the history.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from mnemic.state.records import PendingText
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, first_column, half_vectors, load_statements

_SQL = load_statements("embeddings")
#: Entries of one statement of a switch, so that none meets its time limit; all of them are one transaction.
_SWITCH_SIZE: Final = 5000


class ClaimedEntry(NamedTuple):
    """An entry that is embedded now."""

    item_id: UUID
    piece: int
    kind: str
    scope_key: str


#: Before the first entry of an agent.
FIRST_ENTRY: Final = ClaimedEntry(UUID(int=0), -1, "", "")


class AgentToMove(NamedTuple):
    """An agent with vectors of another embedder than the one to which it is to move."""

    agent_id: str
    #: Vectors that are left to make.
    entries: int


async def claim(tx: ScopedTransaction, *, limit: int) -> list[PendingText]:
    """Return the texts that have waited longest for a vector, and let no other caller claim them for a while."""
    claimed = await tx.tuples(_SQL["claim"], {"most": limit})
    return await _texts(tx, claimed)


async def fill(
    tx: ScopedTransaction, texts: Sequence[PendingText], vectors: Sequence[Sequence[float] | None], *, model: str
) -> int:
    """Store the vectors and return their number. A text that was changed or erased meanwhile gets none.

    Args:
        tx: the transaction.
        texts: texts that were embedded.
        vectors: of the texts, in order; None for a text that the model refuses, which waits longer each time.
        model: name of the embedding model.
    """
    rows = await tx.tuples(_SQL["fill"], _filling(texts, vectors, model))
    return sum(first_column(rows))


async def release(tx: ScopedTransaction, claimed: Sequence[PendingText | ClaimedEntry]) -> None:
    """Let claimed entries of the visible scope keys be embedded now."""
    ids: list[UUID] = []
    pieces: list[int] = []
    for entry in claimed:
        ids.append(entry.item_id)
        pieces.append(entry.piece)
    await tx.execute(_SQL["release"], {"ids": ids, "pieces": pieces})


async def make_due(tx: ScopedTransaction) -> None:
    """Let every entry without a vector be embedded now, and forget how often it was refused."""
    await tx.execute(_SQL["make_due"], {})


async def count_pending(tx: ScopedTransaction) -> int:
    """Return the number of entries of the visible scope keys that wait for a vector."""
    ((pending,),) = await tx.tuples(_SQL["count_pending"], {})
    return int(pending)


async def _texts(tx: ScopedTransaction, claimed: Sequence[tuple[Any, ...]]) -> list[PendingText]:
    if not claimed:
        return []
    values: dict[str, list[Any]] = {"ids": [], "pieces": [], "kinds": []}
    for item_id, piece, kind, *_ in claimed:
        values["ids"].append(item_id)
        values["pieces"].append(piece)
        values["kinds"].append(kind)
    return await tx.rows(PendingText, _SQL["texts"], values)


def _filling(
    texts: Sequence[PendingText], vectors: Sequence[Sequence[float] | None], model: str
) -> Mapping[str, object]:
    values: dict[str, list[Any]] = {"ids": [], "pieces": [], "hashes": []}
    for text in texts:
        values["ids"].append(text.item_id)
        values["pieces"].append(text.piece)
        values["hashes"].append(text.content_hash)
    return {**values, "vectors": half_vectors(vectors), "model": model}


# -- the move of an agent to another embedder


async def agents_to_move(database: Database, agent_id: str | None, model: str) -> list[AgentToMove]:
    """Return the agents, or the one that is named, with vectors of other embedders than this one."""
    statement: LiteralString = "select agent_id, entries from agents_to_reembed(%(agent_id)s, %(model)s)"
    return await database.catalog_rows(AgentToMove, statement, {"agent_id": agent_id, "model": model})


async def searched_model(tx: ScopedTransaction, model: str, previous: str) -> str | None:
    """Return the former embedder if its vectors are searched; None if the agent has none, or has been moved.

    Args:
        tx: of the agent.
        model: name of the settings' embedder, which may lack the length of its vectors.
        previous: name of the former one, likewise.
    """
    rows = await tx.tuples(_SQL["searched_model"], {"model": model, "previous": previous})
    return rows[0][0] if rows else None


async def begin_move(tx: ScopedTransaction, model: str) -> None:
    """Begin to move the agent to an embedder, or go on with it, if it has vectors of another."""
    await tx.call("is_reembedded", model)  # waits for a switch, after which there may be nothing to do
    for _, main_model, _ in await tx.call("agents_to_reembed", tx.identity.agent_id, model):
        await tx.execute(_SQL["begin_move"], {"model": model, "main_model": main_model})


async def claim_for_move(tx: ScopedTransaction, model: str, after: ClaimedEntry, most: int) -> list[ClaimedEntry]:
    """Return the agent's next entries without a vector of the embedder, in their order; no other caller gets them."""
    rows = await tx.call("claim_to_reembed", model, after.item_id, after.piece, most)
    return sorted(ClaimedEntry(*row) for row in rows)


async def texts_of(tx: ScopedTransaction, claimed: Sequence[ClaimedEntry]) -> list[PendingText]:
    """Return the indexed texts of entries of the visible scope keys."""
    return await _texts(tx, claimed)


async def stage(
    tx: ScopedTransaction, texts: Sequence[PendingText], vectors: Sequence[Sequence[float] | None], *, model: str
) -> int:
    """Store vectors in addition to those that are searched, and return their number; arguments as of `fill`."""
    rows = await tx.tuples(_SQL["stage"], _filling(texts, vectors, model))
    return sum(first_column(rows))


async def switch(tx: ScopedTransaction, model: str) -> bool:
    """Search the agent by the vectors of the embedder from now on; False if some are still to be made."""
    ((is_complete,),) = await tx.call("is_reembedded", model)
    if not is_complete:
        return False
    switched = 0
    while changed := (await tx.call("switch_vectors", model, _SWITCH_SIZE))[0][0]:
        switched += changed
    await tx.execute(_SQL["end_move"], {"model": model, "switched": switched > 0})
    return True
