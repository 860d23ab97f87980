"""The move of agents to the embedder of the settings, while searches use the former vectors.

New vectors are stored next to the former ones. Once every entry of an agent has one, a transaction switches the agent.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from mnemic.memory.runtime.embedding import BATCH_SIZE, embed_within, indexed_text, release_claims_on
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.records import Reembedded
from mnemic.storage import embeddings

#: Called with the number of entries that are embedded or refused, and the number that is left.
Progress = Callable[[int, int], None]
#: Text to try an embedder with: one that refuses every text must end the move, not empty the vectors.
_PROBE: Final = "Ana has three boats."
#: Seconds between two looks at entries that another process has claimed.
_PAUSE_SECONDS: Final = 1.0


async def reembed(resources: Resources, agent_id: str | None, progress: Progress | None) -> Reembedded:
    """Move the agent, or all agents of the database, to the embedder of the settings, and wait until that is done.

    Each agent is recorded as moving before the first text is embedded, so that background work continues a move that
    was broken off.

    Raises:
        EmbedderUnavailableError: if the embedder does not answer; the next call continues the move.
        EmbeddingError: if a setting of the embedder is wrong.
    """
    model = await name_of_target(resources)
    database = resources.database
    agents = await embeddings.agents_to_move(database, agent_id, model)
    for agent in agents:
        await database.write(Identity(agent_id=agent.agent_id), partial(embeddings.begin_move, model=model))
    tally = _Tally(sum(agent.entries for agent in agents), progress)
    for agent in agents:
        while True:
            if await move_agent(resources, agent.agent_id, model, tally.add):
                break
            await asyncio.sleep(_PAUSE_SECONDS)
    return Reembedded(agents=len(agents), embedded=tally.embedded, refused=tally.refused)


@dataclass
class _Tally:
    """Numbers of entries of a move."""

    total: int
    progress: Progress | None
    embedded: int = 0
    refused: int = 0

    def add(self, embedded: int, refused: int) -> None:
        """Add the numbers of a batch, and report the progress."""
        self.embedded += embedded
        self.refused += refused
        if self.progress:
            done = self.embedded + self.refused
            self.progress(done, max(self.total - done, 0))


async def move_agent(
    resources: Resources, agent_id: str, model: str, count: Callable[[int, int], None] | None = None
) -> bool:
    """Embed all entries of an agent that can be claimed, then switch the agent; False if others have claimed some.

    Args:
        resources: with the embedder to which the agent moves.
        agent_id: of an agent that moves.
        model: name of the embedder.
        count: called after each batch with the numbers of vectors and of refused texts.

    Raises:
        EmbedderUnavailableError: if the embedder does not answer; new vectors are kept.
        EmbeddingError: if a setting of the embedder is wrong.
    """
    identity, last = Identity(agent_id=agent_id), embeddings.FIRST_ENTRY
    write = partial(resources.database.write, identity)
    while claimed := await write(partial(embeddings.claim_for_move, model=model, after=last, most=BATCH_SIZE)):
        last = claimed[-1]
        keys = sorted({entry.scope_key for entry in claimed})
        async with release_claims_on((MnemicError, asyncio.CancelledError), resources, identity, claimed, keys):
            async with resources.database.transaction(identity, also=keys) as tx:
                texts = await embeddings.texts_of(tx, claimed)
            indexed = [indexed_text(text) for text in texts]
            vectors = await embed_within(resources, indexed, resources.settings.model_timeout_seconds)
            stage = partial(embeddings.stage, texts=texts, vectors=vectors, model=model)
            embedded = await write(stage, also=keys)
        if count:
            count(embedded, vectors.count(None))
    return await write(partial(embeddings.switch, model=model))


async def name_of_target(resources: Resources) -> str:
    """Return the name of the settings' embedder, which has the length of its vectors once it has made one.

    Raises:
        EmbedderUnavailableError: if the embedder does not answer.
        EmbeddingError: if a setting of the embedder is wrong.
    """
    await resources.embedder.embed([_PROBE])
    return resources.embedder.name
