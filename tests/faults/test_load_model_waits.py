"""While a model or the embedder answers, nobody holds a connection: said by the model itself, at every request."""

import importlib
from dataclasses import dataclass, field
from typing import Any

import pytest

from mnemic.operations.refinement import edits
from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.records import ScopeSettings
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
    await memory.configure_scope(ANA, ScopeSettings(scope_key="user:ana", threshold=1))
    model.answer(FACTS, "no JSON", facts(fact(OSLO), fact(BERGEN, 2)))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)], episode="Ana spoke of Oslo."))
    model.answer(OBSERVATIONS, "no JSON", observations(observation(WISH)))
    model.answer(CONSOLIDATION, consolidation("Ana is heard."), consolidation(WISH))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)
    await memory.recall(ANA, "Where did Ana live?", search="always")
    await memory.query(ANA, "Where did Ana live?")
    model.answer(FACTS, facts(fact(BERGEN)))
    await memory.observe(ANA, turns(*SAID, "And then."))
    await memory.form(ANA)
    await memory.consolidate(ANA, "user:ana", force=True)


#: What a formation of each kind asks for, at least.
STEPS = {"sequential": {FACTS, DECISIONS, REFLECTIONS, CONSOLIDATION, EMBEDDINGS},
         "single": {OBSERVATIONS, CONSOLIDATION, EMBEDDINGS}}  # fmt: skip


async def formed(clone: Clone, extraction: str) -> Watch:
    """Everything asked once, with one kind of extraction."""
    with scripted_model() as model:
        async with scripted_resources(clone, model, pool_size=3, extraction=extraction) as resources:
            watch = Watch(clone, resources)
            watch.follow(model)
            await ask_everything(model, Mnemic(resources))
    return watch


@pytest.mark.parametrize("extraction", mostly_thorough(STEPS.keys(), "sequential"))
async def test_no_connection_is_held_at_any_request(clean_db: Clone, extraction: str) -> None:
    watch = await formed(clean_db, extraction)

    assert set(watch.asked) == STEPS[extraction]
    assert watch.asked.count(CONSOLIDATION) >= 2  # a draft and its revision
    assert watch.asked.count(EMBEDDINGS) >= 3
    assert watch.held == []


def holding_a_transaction(monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    """Makes a node keep its transaction open while it asks the model, as a careless one would."""
    module = importlib.import_module(f"mnemic.nodes.{node}")
    ask = module.metered

    async def careless(resources: Resources, who: Identity, *rest: Any) -> Any:
        async with resources.database.scoped(who):
            return await ask(resources, who, *rest)

    monkeypatch.setattr(module, "metered", careless)


@pytest.mark.thorough
async def test_control_a_node_that_holds_its_transaction_is_seen_by_the_model(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding_a_transaction(monkeypatch, "consolidation")
    watch = await formed(clean_db, "sequential")

    assert {(what, taken, busy[0][0]) for what, taken, busy in watch.held} == {
        (CONSOLIDATION, 1, "idle in transaction")
    }


async def refine(clone: Clone) -> Watch:
    """A refinement of two turns, with an update that is embedded and a journal."""
    with scripted_model() as model:
        script_refinement(model)
        async with scripted_resources(clone, model, pool_size=3) as resources:
            await settle_in(resources.database)
            watch = Watch(clone, resources)
            watch.follow(model)
            await Mnemic(resources).refine(ANA, KEY, force=True)
    return watch


async def test_no_connection_is_held_at_any_request_of_a_refinement(clean_db: Clone) -> None:
    watch = await refine(clean_db)

    assert watch.asked == [REFINE, EMBEDDINGS, REFINE, EMBEDDINGS]
    assert watch.held == []


@pytest.mark.thorough
async def test_control_an_update_that_embeds_in_its_transaction_is_seen_by_the_embedder(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = edits._embedded

    async def careless(refining: Any, *rest: Any) -> Any:
        async with refining.resources.database.scoped(refining.identity):
            return await embed(refining, *rest)

    monkeypatch.setattr(edits, "_embedded", careless)
    watch = await refine(clean_db)

    assert [(what, taken) for what, taken, _ in watch.held] == [(EMBEDDINGS, 1)]
