"""Measures how far a refinement shortens a core memory, and what that costs.

python -m benchmarks.refinement [--data FILE_OR_FOLDER] [--model PROVIDER:NAME]

The data is not part of the project: LoCoMo's locomo10.json is at github.com/snap-research/locomo (CC BY-NC 4.0).
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from benchmarks.recall_quality.cache import CachedEmbedder
from benchmarks.recall_quality.locomo import Conversation, read_conversations
from benchmarks.refinement.cores import OUTGROWN_TOKENS, Core, of_conversations, of_examples
from benchmarks.refinement.figures import Figures, figures
from benchmarks.refinement.recalling import WITHIN_TOKENS, Recalled, recall_after, recall_before
from benchmarks.refinement.refining import refine
from mnemic.graphs.resources import open_resources
from mnemic.operations.run.resources import Resources
from mnemic.state.settings import Settings


def main() -> None:
    """Prints the table; without data, why a part of it is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("MNEMIC_DATA"), help="default: MNEMIC_DATA")
    parser.add_argument("--model", help="as MNEMIC_AGENT_MODEL; default: the offline rule")
    parser.add_argument("--embedder", default="minilm", help="as MNEMIC_EMBEDDER; default: minilm")
    arguments = parser.parse_args()
    console = Console(width=200)
    conversations = _read(arguments.data)
    if not conversations:
        console.print(
            f"Skipped: no conversation found in {arguments.data or 'MNEMIC_DATA, which is not set'}; "
            "name a file in LoCoMo's format, or a folder of them, by --data"
        )
    asyncio.run(_measure(console, conversations, arguments.model, arguments.embedder))


def _read(data: Path | str | None) -> list[Conversation]:
    if data is None:
        return []
    files = sorted(Path(data).glob("*.json")) if Path(data).is_dir() else [Path(data)]
    return [conversation for file in files if file.is_file() for conversation in read_conversations(file)]


async def _measure(console: Console, conversations: list[Conversation], model: str | None, embedder: str) -> None:
    async with _opened(model, embedder) as (resources, folder):
        console.print(f"agent model: {model or 'offline rule'}; embedder: {resources.embedder.name}", highlight=False)
        cores = [await of_examples(data_dir=folder, embedder=embedder), *of_conversations(conversations)]
        table = _table()
        for core in cores:
            refined = await refine(resources, core)
            before, after = await recall_before(resources, refined), await recall_after(resources, refined)
            _add(table, core, figures(refined), before, after)
        console.print(table)
        for core in cores:
            if core.tokens <= OUTGROWN_TOKENS:
                console.print(f"{core.name}: there is no more than this; the target is lower in the same proportion")


@asynccontextmanager
async def _opened(model: str | None, embedder: str) -> AsyncIterator[tuple[Resources, Path]]:
    """As the service opens it, on an embedded server that is gone afterwards unless MNEMIC_DATABASE_URL names one."""
    folder = Path(gettempdir()) / f"mnemic-refinement-{uuid4().hex[:12]}"  # not mkdtemp's, which only root could enter
    try:
        async with open_resources(Settings(embedder=embedder, data_dir=folder, agent_model=model)) as resources:
            yield replace(resources, embedder=CachedEmbedder(resources.embedder, None)), folder
    finally:
        rmtree(folder, ignore_errors=True)


def _table() -> Table:
    columns = ("memories", "tokens", "target", "details kept", "in each", "protected", "questions", "answers kept")
    table = Table("", *columns, "recall@10", f"recall in {WITHIN_TOKENS} tokens", title="Refinement: before → after")
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    return table


def _add(table: Table, core: Core, found: Figures, before: Recalled, after: Recalled) -> None:
    recalled = [
        f"{100 * was:.1f} → {100 * now:.1f}" if before.questions else "-"
        for was, now in ((before.at_10, after.at_10), (before.within_tokens, after.within_tokens))
    ]
    table.add_row(
        core.name,
        f"{found.memories_before} → {found.memories_after}",
        f"{found.tokens_before:,} → {found.tokens_after:,}",
        f"{core.target:,}",
        f"{found.kept_whole:.1%}",
        f"{found.kept_each:.1%}",
        f"{found.protected}, {found.protected_changed} changed",
        str(before.questions),
        f"{found.answers_kept:.1%}" if before.questions else "-",
        *recalled,
    )


if __name__ == "__main__":
    main()
