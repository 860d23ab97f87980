"""While a model or the embedder answers, nobody holds a connection: said by the model itself, at every request."""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from mnemic.memory.consolidation import writing
from mnemic.memory.refinement import edits
from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.storage.schema import SERVICE_ROLE
from tests.faults.refining import KEY, script_refinement, settle_in
from tests.faults.strikes import EMBEDDINGS, REFINE, step_of
from tests.support.loopback import LoopbackModel
from tests.support.matrix import mostly_thorough
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    observation,
    observations,
    reflection,
    reflections,
    scripted_model,
    scripted_resources,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
OSLO, BERGEN = "Ana lives in Oslo with two cats.", "Ana lives in Bergen with two cats."
WISH = "Ana wants answers of 12 words at most."
SAID = "I say what I say.", "assistant: So you do.", "Well then.", "Good."


def busy_backends(clone: Clone) -> list[tuple[str, str]]:
    """State and newest statement of the service's backends that run something or sit in a transaction."""
    with clone.as_superuser() as connection:
        return connection.execute(
            "select state, query from pg_stat_activity where datname = %s and usename = %s and state <> 'idle'",
            (clone.name, SERVICE_ROLE),
        ).fetchall()


@dataclass
class Watch:
    """What was going on in the database at each request."""

    clone: Clone
    resources: Resources
    asked: list[str] = field(default_factory=list)
    #: Requests during which a connection was in somebody's hands, or a backend was not idle.
    held: list[tuple[str, int, list[tuple[str, str]]]] = field(default_factory=list)

    def follow(self, model: LoopbackModel) -> None:
        """Looks at the moment of each request, from the model's own thread."""
        reply_to = model.reply_to

        def note(path: str, request: dict[str, Any]) -> tuple[int, str, bytes]:
            what = step_of(path, request) or ""
            stats = self.resources.database.pool.get_stats()
            taken, busy = stats["pool_size"] - stats["pool_available"], busy_backends(self.clone)
            self.asked.append(what)
            if taken or busy:
                self.held.append((what, taken, busy))
            return reply_to(path, request)

        model.reply_to = note  # type: ignore[method-assign]  # the test's own server


async def ask_everything(model: LoopbackModel, memory: Mnemic) -> None:
    """Every way to a model: each step, its repair, a revision, and all that embeds a question."""
    await memory.admin.configure_scope(ANA, "user:ana", threshold=1)
    model.answer(FACTS, "no JSON", facts(fact(OSLO), fact(BERGEN, 2)))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)], episode="Ana spoke of Oslo."))
    model.answer(OBSERVATIONS, "no JSON", observations(observation(WISH)))
    model.answer(CONSOLIDATION, consolidation("Ana is heard."), consolidation(WISH))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)
    await memory.recall(ANA, "Where did Ana live?", search="always")
    await memory.query(ANA, "Where did Ana live?")
    model.answer(FACTS, facts(fact(BERGEN.replace("Bergen", "Turin"))))
    await memory.observe(ANA, turns(*SAID, "And then."))
    await memory.form(ANA)
    await memory.admin.consolidate(ANA, "user:ana", force=True)


#: What each way asks for, at least.
STEPS = {"sequential": {FACTS, DECISIONS, REFLECTIONS, CONSOLIDATION, EMBEDDINGS},
         "single": {OBSERVATIONS, CONSOLIDATION, EMBEDDINGS},
         "refinement": {REFINE, EMBEDDINGS}}  # fmt: skip


async def watched(clone: Clone, way: str) -> Watch:
    """Everything asked once with a kind of extraction, or a refinement of two turns with an update and a journal."""
    settings = {} if way == "refinement" else {"extraction": way}
    with scripted_model() as model:
        async with scripted_resources(clone, model, pool_size=3, **settings) as resources:
            watch = Watch(clone, resources)
            if way == "refinement":
                script_refinement(model)
                await settle_in(resources.database)
                watch.follow(model)
                await Mnemic(resources).refine(ANA, KEY, force=True)
            else:
                watch.follow(model)
                await ask_everything(model, Mnemic(resources))
    return watch


@pytest.mark.parametrize("way", mostly_thorough(STEPS.keys(), "sequential", "refinement"))
async def test_no_connection_is_held_at_any_request(clean_db: Clone, way: str) -> None:
    watch = await watched(clean_db, way)

    assert set(watch.asked) == STEPS[way]
    if way != "refinement":
        assert watch.asked.count(CONSOLIDATION) >= 2  # a draft and its revision
        assert watch.asked.count(EMBEDDINGS) >= 3
    assert watch.held == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "module", "name", "step"),
    [("sequential", writing, "track_usage", CONSOLIDATION), ("refinement", edits, "finish", EMBEDDINGS)],
    ids=["a model", "an embedder"],
)
async def test_control_a_transaction_that_is_open_meanwhile_is_seen_by(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch, way: str, module: ModuleType, name: str, step: str
) -> None:
    """As if a careless node asked within its transaction."""
    ask = getattr(module, name)

    async def careless(holder: Any, *rest: Any) -> Any:
        resources, who = (holder, rest[0]) if isinstance(holder, Resources) else (holder.resources, holder.identity)
        async with resources.database.transaction(who):
            return await ask(holder, *rest)

    monkeypatch.setattr(module, name, careless)
    watch = await watched(clean_db, way)

    assert {(what, taken, busy[0][0]) for what, taken, busy in watch.held} == {(step, 1, "idle in transaction")}
