"""Measures how far a refinement shortens a core memory, and what that costs.

python -m benchmarks.refinement [--data FILE_OR_FOLDER] [--only NAME] [--model PROVIDER:NAME [--base-url URL]]

What a model is sent is the same in every run, so that its answers can be recorded and played again.
The data is not part of the project: LoCoMo's locomo10.json is at github.com/snap-research/locomo (CC BY-NC 4.0).
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from benchmarks.recall_quality.cache import CachedEmbedder
from benchmarks.recall_quality.locomo import Conversation, read_conversations
from benchmarks.refinement.cores import OUTGROWN_TOKENS, Core, of_conversations, of_examples
from benchmarks.refinement.figures import Figures, figures
from benchmarks.refinement.recalling import WITHIN_TOKENS, Recalled, recall_after, recall_before
from benchmarks.refinement.refining import refine
from mnemic.memory.runtime.resources import Resources, open_resources
from mnemic.state.settings import Settings


def main() -> None:
    """Print the table; without data, the reason for the missing part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("MNEMIC_DATA"), help="default: MNEMIC_DATA")
    parser.add_argument("--model", help="as MNEMIC_AGENT_MODEL; default: the offline rule")
    parser.add_argument("--base-url", help="as MNEMIC_BASE_URL: an OpenAI-compatible endpoint of the model")
    parser.add_argument("--hours", type=float, help="that a model may take, such as one that is played by hand")
    parser.add_argument("--only", default="", help="core memories with this in their name, such as conv-26")
    parser.add_argument("--today", type=date.fromisoformat, help="for the model; default: the newest memory's day")
    parser.add_argument("--embedder", default="minilm", help="as MNEMIC_EMBEDDER; default: minilm")
    arguments = parser.parse_args()
    console = Console(width=200)
    conversations = _read(arguments.data)
    if not conversations:
        console.print(
            f"Skipped: no conversation found in {arguments.data or 'MNEMIC_DATA, which is not set'}; "
            "name a file in LoCoMo's format, or a folder of them, by --data"
        )
    asyncio.run(_measure(console, conversations, arguments))


def _read(data: Path | str | None) -> list[Conversation]:
    if data is None:
        return []
    files = sorted(Path(data).glob("*.json")) if Path(data).is_dir() else [Path(data)]
    return [conversation for file in files if file.is_file() for conversation in read_conversations(file)]


async def _measure(console: Console, conversations: list[Conversation], arguments: argparse.Namespace) -> None:
    async with _opened(arguments) as (resources, folder):
        model = arguments.model or "offline rule"
        console.print(f"agent model: {model}; embedder: {resources.embedder.name}", highlight=False)
        rules = {"fast_model": "offline", "slow_model": "offline"}  # they form the same each time
        examples = await of_examples(data_dir=folder, embedder=arguments.embedder, **rules)
        cores = [core for core in (examples, *of_conversations(conversations)) if arguments.only in core.name]
        table = _table()
        for core in cores:
            refined = await refine(resources, core, arguments.today)
            before, after = await recall_before(resources, refined), await recall_after(resources, refined)
            found, calls = figures(refined), refined.calls
            _add(table, core, found, before, after)
            _tell(console, f"{core.name}: calls: {calls.sent} sent, {calls.answered} answered, {calls.refused} refused")
            for text in found.protected:
                _tell(console, f"{core.name}: protected: {text}")
        console.print(table)
        for core in cores:
            if core.tokens <= OUTGROWN_TOKENS:
                console.print(f"{core.name}: there is no more than this; the target is lower in the same proportion")


def _tell(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


@asynccontextmanager
async def _opened(arguments: argparse.Namespace) -> AsyncIterator[tuple[Resources, Path]]:
    """As the service opens it, on an embedded server that is gone afterwards unless MNEMIC_DATABASE_URL names one."""
    folder = Path(gettempdir()) / f"mnemic-refinement-{uuid4().hex[:12]}"  # not mkdtemp's, which only root could enter
    try:
        async with open_resources(_settings(arguments, folder)) as resources:
            yield replace(resources, embedder=CachedEmbedder(resources.embedder, None)), folder
    finally:
        rmtree(folder, ignore_errors=True)


def _settings(arguments: argparse.Namespace, folder: Path) -> Settings:
    patience: dict[str, Any] = {}
    if arguments.hours:
        seconds = round(3600 * arguments.hours)
        patience = {"model_timeout_seconds": seconds, "lease_seconds": seconds, "refinement_minutes": seconds // 60}
    own = {"base_url": arguments.base_url} if arguments.base_url else {}
    return Settings(embedder=arguments.embedder, data_dir=folder, agent_model=arguments.model, **own, **patience)


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
        f"{len(found.protected)}, {found.protected_changed} changed",
        str(before.questions),
        f"{found.answers_kept:.1%}" if before.questions else "-",
        *recalled,
    )


if __name__ == "__main__":
    main()
