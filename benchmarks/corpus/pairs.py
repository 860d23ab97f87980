"""Forty pairs of a known fact and what is said later: what `decide` closes, and what `correct` does.

python -m benchmarks.corpus.pairs --recorded
python -m benchmarks.corpus.pairs --record-from http://HOST/v1
"""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import yaml

from benchmarks.corpus.candidates import store
from benchmarks.corpus.recording import add_record_arguments, chosen, record_of
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.models.replay import Replay
from mnemic.service.cli.talks import name_agent
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity, display_name, scope_key
from mnemic.state.records import Memory
from mnemic.state.settings import Settings

_FILE: Final = Path(__file__).with_name("pairs.yaml")
_KNOWN: Final = datetime(2026, 2, 2, 9, tzinfo=UTC)
_SAID: Final = datetime(2026, 6, 1, 9, tzinfo=UTC)
#: Ten changes in one conversation are more than people make; and nothing but facts is looked at.
_SETTINGS: Final[dict[str, Any]] = {
    "facts_per_ten_messages": 20,
    "closings_per_message": 3,
    "always_in_context": False,
}


class Pair(NamedTuple):
    """A known fact, what is said later, and whether that ends it."""

    old: str
    said: str
    #: What a correction would say; of one that ends.
    new: str = ""
    closes: bool = False
    #: Words that something in force still says where it does not end.
    keeps: Sequence[str] = ()


class Outcome(NamedTuple):
    """What became of a pair."""

    pair: Pair
    closed: bool
    #: What took the place of the known fact.
    by: str
    #: Whether something in force still says what is to be kept.
    kept: bool

    @property
    def is_false(self) -> bool:
        """Whether a fact that stands is gone."""
        return not self.pair.closes and self.closed and not self.kept

    @property
    def is_missed(self) -> bool:
        """Whether a fact that has ended is still in force."""
        return self.pair.closes and not self.closed


def pairs() -> dict[str, list[Pair]]:
    """All forty, by who says them."""
    listed = yaml.safe_load(_FILE.read_text("utf-8"))
    return {person: [Pair(**{"keeps": (), **row}) for row in rows] for person, rows in listed.items()}


async def decided(replay: Replay | None, **settings: Any) -> list[Outcome]:
    """Form all pairs: one conversation of each person, after which the known facts are read."""
    found: list[Outcome] = []
    models = replay.settings() if replay else {}
    async with Mnemic.open(settings=Settings(**{**settings, **models, **_SETTINGS})) as memory:
        for person, given in pairs().items():
            who = await _known(memory, person, given)
            if replay:
                replay.session = person
            lines = [
                {"role": "user", "content": pair.said, "time": (_SAID + timedelta(minutes=number)).isoformat()}
                for number, pair in enumerate(given)
            ]
            await memory.observe(who, lines)
            await memory.form(who)
            found += _outcomes(given, await memory.memories(who, ("fact",), with_closed=True))
    return found


async def corrected(**settings: Any) -> list[Outcome]:
    """Return the rest of all pairs after each ended fact was corrected by hand; no model is called."""
    found: list[Outcome] = []
    async with Mnemic.open(settings=Settings(**settings)) as memory:
        for person, given in pairs().items():
            who = (await _known(memory, person, given)).model_copy(update={"session_id": None})
            ids = {item.content: item.id for item in await memory.memories(who, ("fact",))}
            for pair in given:
                if pair.closes:
                    await memory.correct(who, ids[pair.old], pair.new)
            found += _outcomes(given, await memory.memories(who, ("fact",), with_closed=True))
    return found


async def _known(memory: Mnemic, person: str, given: Sequence[Pair]) -> Identity:
    """Make an agent that knows the old facts."""
    who = Identity(agent_id=f"pairs-{uuid4().hex[:8]}", user_id=person, session_id="later")
    key, name = scope_key("user", person), display_name(person)
    made = [new_memory("fact", "activity", key, pair.old, _KNOWN, name) for pair in given]
    await store(memory.resources, who, [replace(one, importance=3, subject_user_id=person) for one in made])
    await name_agent(memory, who)
    return who


def _outcomes(given: Sequence[Pair], memories: Sequence[Memory]) -> list[Outcome]:
    by_id = {item.id: item for item in memories}
    old = {item.content: item for item in memories if item.valid_from == _KNOWN}
    in_force = [item.content for item in memories if item.state == "active"]
    return [
        Outcome(
            pair,
            closed=old[pair.old].state != "active",
            by=by_id[successor].content if (successor := old[pair.old].superseded_by) in by_id and successor else "",
            kept=any(all(word in content for word in pair.keeps) for content in in_force),
        )
        for pair in given
    ]


def _lines(title: str, found: Sequence[Outcome]) -> list[str]:
    false, missed = [one for one in found if one.is_false], [one for one in found if one.is_missed]
    return [
        f"{title}: {len(found)} pairs, {len(false)} false supersessions, {len(missed)} missed",
        *(f"  FALSE {one.pair.old}  ->  {one.by}   (said: {one.pair.said})" for one in false),
        *(f"  MISSED {one.pair.old}   (said: {one.pair.said})" for one in missed),
        *(f"  closed {one.pair.old}  ->  {one.by}" for one in found if one.closed and not one.is_false),
    ]


def main() -> None:
    """Print closed facts, wrongly closed facts and missed ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_record_arguments(parser)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        server = chosen(arguments, arguments.record or record_of("pairs"))
        found = asyncio.run(decided(stack.enter_context(server) if server else None))
    notes = server.notes() if server else []
    for line in [*notes, *_lines("decide", found), *_lines("correct", asyncio.run(corrected(embedder="minilm")))]:
        print(line)


if __name__ == "__main__":
    main()
