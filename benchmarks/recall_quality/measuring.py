"""One run over all conversations: stored three times, asked in every way."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import get_args
from uuid import uuid4

from benchmarks.recall_quality.asking import ask_all
from benchmarks.recall_quality.cache import CachedEmbedder
from benchmarks.recall_quality.locomo import Conversation
from benchmarks.recall_quality.metrics import Score
from benchmarks.recall_quality.storing import Kept, store
from mnemic.memory.runtime.resources import Resources, open_resources
from mnemic.state.settings import Settings

#: By what was stored, then by the way to ask; in the order of all conversations' questions.
Results = dict[Kept, dict[str, list[Score]]]


async def measure(
    conversations: Sequence[Conversation], resources: Resources, ways: Sequence[Kept] = get_args(Kept)
) -> Results:
    """Store the conversations and search; they stay in the database under agents of their own."""
    results: Results = {}
    for kept in ways:
        found: dict[str, list[Score]] = defaultdict(list)
        for conversation in conversations:
            stored = await store(resources, conversation, kept)
            for way, scores in (await ask_all(resources, conversation, stored)).items():
                found[way] += scores
        results[kept] = dict(found)
    return results


@asynccontextmanager
async def opened(embedder: str, cache: Path | None) -> AsyncIterator[Resources]:
    """As the service opens it, on an embedded server that is gone afterwards unless MNEMIC_DATABASE_URL names one."""
    folder = Path(gettempdir()) / f"mnemic-quality-{uuid4().hex[:12]}"  # not mkdtemp's, which only root could enter
    try:
        async with open_resources(Settings(embedder=embedder, data_dir=folder)) as resources:
            yield replace(resources, embedder=CachedEmbedder(resources.embedder, cache))
    finally:
        rmtree(folder, ignore_errors=True)
