"""Vectors of stored texts: at once if the embedding model answers, else later. No caller waits for an outage."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final
from uuid import UUID

from mnemic.memory.runtime.identity import log_ids
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import pieces, search_text
from mnemic.models.embedders import Embedder, embed_each
from mnemic.models.embedders.vectors import Vector
from mnemic.state.errors import EmbedderUnavailableError, MnemicError
from mnemic.state.identity import Identity
from mnemic.state.records import FilledVectors, NewMemory, PendingText
from mnemic.storage import embeddings
from mnemic.storage.embeddings import ClaimedEntry
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: Texts of one batch, between two transactions.
BATCH_SIZE: Final = 100


async def with_agents_embedder(resources: Resources, identity: Identity, *, for_recall: bool = False) -> Resources:
    """Return the resources with the embedder whose vectors the agent's searches compare.

    That is the previous one until the agent's vectors are moved to the other.
    """
    if resources.previous_embedder is None:
        return resources
    async with resources.database.transaction(identity, for_recall=for_recall) as tx:
        return await _with_searched(resources, resources.previous_embedder, tx)


async def is_switched(resources: Resources, chosen: Resources, tx: ScopedTransaction) -> bool:
    """Return whether the agent was switched to another embedder after its embedder was chosen for a question.

    Args:
        resources: Resources of the process.
        chosen: Resources from `with_agents_embedder`.
        tx: Transaction of the search.
    """
    if chosen is resources or resources.previous_embedder is None:
        return False
    current = await _with_searched(resources, resources.previous_embedder, tx)
    return current.embedder is not chosen.embedder


async def _with_searched(resources: Resources, previous: Embedder, tx: ScopedTransaction) -> Resources:
    model = await embeddings.searched_model(tx, resources.embedder.name, previous.name)
    return resources.with_embedder(model)


async def embed_to_store(
    resources: Resources, texts: Sequence[str], *, is_awaited: bool = False
) -> list[Vector | None]:
    """Return one vector for each text, in order, or None for a text that is stored without a vector.

    A text without a vector is found by its words. `embed_pending` fills its vector later.

    Args:
        resources: Resources of the process.
        texts: Texts to embed.
        is_awaited: Whether a caller waits for the write, so that the model has less time.

    Raises:
        EmbeddingError: if a setting of the embedder is wrong.
    """
    limit = resources.settings.model_timeout_seconds
    if is_awaited:
        limit = resources.settings.pool_timeout_seconds
    try:
        return await embed_within(resources, texts, limit)
    except EmbedderUnavailableError as error:
        _LOG.warning("%d texts are stored without a vector, which is added later: %s", len(texts), error)
        return [None] * len(texts)


async def embed_memories(resources: Resources, memories: Sequence[NewMemory]) -> dict[UUID, Vector | None]:
    """Return the vectors of new memories by their ids, as `embed_to_store` does."""
    texts: list[str] = []
    for memory in memories:
        texts.append(memory.search_text)
    vectors: dict[UUID, Vector | None] = {}
    if texts:
        for memory, vector in zip(memories, await embed_to_store(resources, texts), strict=True):
            vectors[memory.id] = vector
    return vectors


async def embed_pending(
    resources: Resources, identity: Identity, *, also: Sequence[str] = (), force: bool = False
) -> FilledVectors:
    """Fill the vectors of entries that were stored without one, the longest waiting first, batch by batch.

    Each batch is claimed in one transaction and filled in another, so that no connection waits for the model. A text
    that the model refuses again waits longer each time, up to a day. A batch that is cancelled is due at once.

    Args:
        resources: Resources of the process.
        identity: Identity with the scope keys of the entries.
        also: Further scope keys, as of `Database.transaction`.
        force: Whether entries that have to wait are embedded, too.

    Raises:
        EmbedderUnavailableError: if the model does not answer; the other entries wait as before.
        EmbeddingError: if a setting of the embedder is wrong.
    """
    resources = await with_agents_embedder(resources, identity)
    write = partial(resources.database.write, identity, also=also)
    if force:
        await write(embeddings.make_due)
    embedded = 0
    while claimed := await write(partial(embeddings.claim, limit=BATCH_SIZE)):
        texts = [indexed_text(row) for row in claimed]
        # if the model does not answer, the minute of the claim is the pause before the next request
        async with release_claims_on(asyncio.CancelledError, resources, identity, claimed, also):
            vectors = await embed_within(resources, texts, resources.settings.model_timeout_seconds)
            fill = partial(embeddings.fill, texts=claimed, vectors=vectors, model=resources.embedder.name)
            embedded += await write(fill)
    return FilledVectors(embedded=embedded, pending=await write(embeddings.count_pending))


@asynccontextmanager
async def release_claims_on(
    errors: type[BaseException] | tuple[type[BaseException], ...],
    resources: Resources,
    identity: Identity,
    claimed: Sequence[PendingText | ClaimedEntry],
    also: Sequence[str],
) -> AsyncIterator[None]:
    """Let the claimed entries be embedded at once if the block ends with one of the errors.

    If the database is away, or the process is killed, the claim ends by itself after a minute.
    """
    try:
        yield
    except errors:
        with suppress(MnemicError):
            release = partial(embeddings.release, claimed=claimed)
            await asyncio.shield(resources.database.write(identity, release, also=also))
        raise


def embed_later(resources: Resources, identity: Identity, *, also: Sequence[str]) -> None:
    """Begin to fill pending vectors in the background; a failure is logged, and the entries wait."""

    async def fill() -> None:
        try:
            await embed_pending(resources, identity, also=also)
        except MnemicError as error:
            _LOG.warning("Could not fill pending vectors: %s", error, extra=log_ids(identity))

    resources.background.begin(("vectors", identity.agent_id, *identity.scope_keys, *also), fill, log_ids(identity))


async def embed_within(resources: Resources, texts: Sequence[str], limit: float) -> list[Vector | None]:
    """Return one vector for each text, in order, or None for a text that the embedder refuses.

    Raises:
        EmbedderUnavailableError: if the embedder does not answer within the limit, in seconds.
        EmbeddingError: if a setting of the embedder is wrong.
    """
    timeout: float | None = limit
    if resources.embedder.local:  # it cannot be away; it only has other texts before these
        timeout = None
    try:
        async with asyncio.timeout(timeout):
            return await embed_each(resources.embedder, texts)
    except TimeoutError:
        raise EmbedderUnavailableError(
            f"{resources.embedder.name} did not answer within {limit:g} s: look at its server, or wait"
        ) from None


def indexed_text(row: PendingText) -> str:
    """Return the text as it was indexed, of a message that of one piece."""
    if row.kind != "message":
        return search_text(row.dated, row.subject, row.content)
    return search_text(row.dated, row.subject, pieces(row.content)[row.piece])
