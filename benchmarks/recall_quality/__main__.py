"""Measures recall: which turns are searched by default, and how search ranks conversations in LoCoMo's format.

Exits with 1 if too few questions are searched and answered, or too many turns of small talk are searched.

python -m benchmarks.recall_quality [--data FILE_OR_FOLDER] [--cache FOLDER]

The data is not part of the project: LoCoMo's locomo10.json is at github.com/snap-research/locomo (CC BY-NC 4.0).
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console

from benchmarks.recall_quality.automatic import described, of_dialogues, of_examples
from benchmarks.recall_quality.locomo import Conversation, read_conversations
from benchmarks.recall_quality.measuring import Results, measure, opened
from benchmarks.recall_quality.messages import telling_conversation
from benchmarks.recall_quality.report import by_budget, by_category
from benchmarks.recall_quality.storing import Kept
from benchmarks.recall_quality.turns import Turns, measure_turns, read_turns


def main() -> None:
    """Print the tables; without data, the reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("MNEMIC_DATA"), help="default: MNEMIC_DATA")
    parser.add_argument("--cache", type=Path, help="folder for embeddings, which a second run reads")
    parser.add_argument("--embedder", default="minilm", help="as MNEMIC_EMBEDDER; default: minilm")
    arguments = parser.parse_args()
    console = Console(width=200)
    console.print(f"Automatic search, example conversations: {described(of_examples())}", highlight=False)
    if arguments.cache is not None:
        arguments.cache.mkdir(parents=True, exist_ok=True)
    turns = asyncio.run(_measured_turns(arguments.embedder, arguments.cache))
    for line in turns.lines:
        console.print(line, highlight=False)
    messages = [telling_conversation()]
    console.print("Messages that tell and ask at once, in eight languages, asked for later:")
    measured = asyncio.run(_measured(messages, arguments.embedder, arguments.cache, ways=("messages",)))
    _print(console, messages, measured)
    conversations = _read(arguments.data)
    if conversations:
        console.print(f"Automatic search, these dialogues: {described(of_dialogues(conversations))}", highlight=False)
        _print(console, conversations, asyncio.run(_measured(conversations, arguments.embedder, arguments.cache)))
    else:
        console.print(
            f"Skipped: no conversation found in {arguments.data or 'MNEMIC_DATA, which is not set'}; "
            "name a file in LoCoMo's format, or a folder of them, by --data"
        )
    sys.exit(not turns.is_met)


def _read(data: Path | str | None) -> list[Conversation]:
    if data is None:
        return []
    files = sorted(Path(data).glob("*.json")) if Path(data).is_dir() else [Path(data)]
    return [conversation for file in files if file.is_file() for conversation in read_conversations(file)]


async def _measured_turns(embedder: str, cache: Path | None) -> Turns:
    async with opened(embedder, cache) as resources:
        return await measure_turns(resources, read_turns())


async def _measured(
    conversations: Sequence[Conversation], embedder: str, cache: Path | None, ways: Sequence[Kept] = get_args(Kept)
) -> Results:
    async with opened(embedder, cache) as resources:
        return await measure(conversations, resources, ways)


def _print(console: Console, conversations: Sequence[Conversation], results: Results) -> None:
    questions = [question for conversation in conversations for question in conversation.questions]
    for kept, scores in results.items():
        console.print(by_category(kept, questions, scores))
        console.print(by_budget(kept, questions, scores))


if __name__ == "__main__":
    main()
