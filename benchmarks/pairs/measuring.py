"""Stores the pairs, has the product judge them with the reader's verdicts, and reads what became of each."""

import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final

from benchmarks.pairs.dataset import Pair, load_answers
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.models.loopback import LoopbackServer, Request, Response, completion
from mnemic.prompts.background.judge_pairs import PairVerdict
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import Memory, NewMemory
from mnemic.state.settings import Settings
from mnemic.storage import memories, scopes
from mnemic.storage.transaction import ScopedTransaction

_EARLIER: Final = datetime(2026, 1, 12, 9, tzinfo=UTC)
_LATER: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
_PAIR: Final = re.compile(r"^pair (\d+), about .*\n  earlier \[[^\]]*\]: (.*)\n  later \[[^\]]*\]: (.*)$", re.MULTILINE)


class Reader(LoopbackServer):
    """Answers as the reader did. A pair that the reader did not see is left apart, and counted.

    Args:
        pairs: of the data set.
        is_careless: call every pair the same instead, and drop the earlier fact.
    """

    def __init__(self, pairs: Sequence[Pair], *, is_careless: bool) -> None:
        super().__init__()
        answers = load_answers()
        self._answers = {(pair.earlier, pair.later): answers[pair.id] for pair in pairs}
        if is_careless:
            for (earlier, later), verdict in self._answers.items():
                same = verdict.model_copy(update={"verdict": "SAME", "text": later})
                self._answers[earlier, later] = same
        #: Pairs of the data set that the product had judged, and the number of others.
        self.judged: set[tuple[str, str]] = set()
        self.others = 0
        self.calls = 0

    def reply_to(self, path: str, request: Request) -> Response:
        """Answer each pair of the prompt by its sentences."""
        self.calls += 1
        verdicts: list[dict[str, Any]] = []
        for number, earlier, later in _PAIR.findall(request["messages"][-1]["content"]):
            verdict = self._answers.get((earlier, later))
            if verdict is None:
                self.others += 1
                verdict = PairVerdict(pair=0, reason="", verdict="APART", text="")
            else:
                self.judged.add((earlier, later))
            verdicts.append({**verdict.model_dump(), "pair": int(number)})
        message = {"role": "assistant", "content": json.dumps({"verdicts": verdicts})}
        return 200, "application/json", json.dumps(completion(request, message, usage=(0, 0))).encode()


@dataclass(frozen=True)
class Outcome:
    """What became of a pair."""

    pair: Pair
    was_judged: bool
    is_merged: bool
    #: Whether the later fact replaced the earlier one.
    is_updated: bool

    @property
    def is_false(self) -> bool:
        """Whether facts were merged that are not the same, or a fact was closed that stays true."""
        return (self.is_merged and self.pair.key != "same") or (self.is_updated and self.pair.key != "update")

    @property
    def is_missed(self) -> bool:
        """Whether a duplicate or an outdated value is left."""
        wanted = {"same": self.is_merged, "update": self.is_updated, "apart": True}
        return not wanted[self.pair.key]


async def measure(pairs: Sequence[Pair], *, is_careless: bool = False, **settings: Any) -> tuple[list[Outcome], Reader]:
    """Return what a run of the maintenance makes of the pairs, and the reader that it asked."""
    outcomes: list[Outcome] = []
    async with AsyncExitStack() as stack:
        reader = stack.enter_context(Reader(pairs, is_careless=is_careless))
        models = {"fast_model": "openai:reader", "base_url": reader.base_url, "api_key": "recorded"}
        memory = await stack.enter_async_context(
            Mnemic.open(
                settings=Settings(**{"background": False, "pairs_per_user_and_day": 1000, **models, **settings})
            )
        )
        for person, given in groupby(pairs, key=lambda pair: pair.person):
            await _store(memory, _identity(person), list(given))
        await memory.admin.maintain(Identity(agent_id="pairs"))
        for person, given in groupby(pairs, key=lambda pair: pair.person):
            facts = await memory.memories(_identity(person), ("fact",), with_closed=True)
            outcomes += [_outcome(pair, facts, reader) for pair in given]
    return outcomes, reader


def _identity(person: str) -> Identity:
    return Identity(agent_id="pairs", user_id=person.casefold())


async def _store(memory: Mnemic, who: Identity, pairs: Sequence[Pair]) -> None:
    resources = memory.resources
    facts: list[NewMemory] = []
    for place, pair in enumerate(pairs):
        for since, text in ((_EARLIER, pair.earlier), (_LATER, pair.later)):
            key = scope_key("user", who.user_id or "")
            made = new_memory("fact", "activity", key, text, since + timedelta(days=place), pair.person)
            facts.append(replace(made, importance=3, subject_user_id=who.user_id))
    embedded = await resources.embedder.embed([fact.search_text for fact in facts])
    vectors = {fact.id: vector for fact, vector in zip(facts, embedded, strict=True)}

    async def act(tx: ScopedTransaction) -> None:
        await scopes.ensure_agent(tx)
        await tx.begin_operation("formation")
        await memories.insert(tx, facts, model=resources.embedder.name, vectors=vectors, run_id=None)

    await resources.database.write(who, act)


def _outcome(pair: Pair, facts: Sequence[Memory], reader: Reader) -> Outcome:
    earlier = next(fact for fact in facts if fact.content == pair.earlier and fact.valid_from < _LATER)
    later = next(fact for fact in facts if fact.content == pair.later and fact.valid_from >= _LATER)
    successor = earlier.superseded_by
    return Outcome(
        pair,
        was_judged=(pair.earlier, pair.later) in reader.judged,
        is_merged=successor is not None and successor == later.superseded_by,
        is_updated=successor == later.id,
    )
