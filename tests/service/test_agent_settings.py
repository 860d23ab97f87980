"""What an agent overrides of the settings: each call adds to the last, None takes back, and all of it has to fit."""

import asyncio
from typing import Any

import psycopg
import pytest

from mnemic import Mnemic, Settings
from mnemic.state.errors import ConfigurationError, DatabaseUnavailableError
from mnemic.storage import inbox, scopes
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.played_refinements import keep
from tests.support.rollbacks import ANA, everything
from tests.support.scripted import scripted_memory, turns
from tests.support.server import Clone
from tests.support.supervised import SAID, says, turn
from tests.support.worlds import identity, message

MORE = "refinement_target_tokens: 5,000 is more than refinement_budget_tokens, which is 200: set both"


def own(superuser: psycopg.Connection) -> dict[str, Any]:
    rows = superuser.execute("select settings from mnemic.agents where agent_id = 'harbor'").fetchall()
    return rows[0][0] if rows else {}


async def test_what_was_set_before_stays_until_none_takes_it_back(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    await memory.configure_agent(ANA, recall_limit=3, persona="You are the harbour master.")
    await memory.configure_agent(ANA, rag=False)
    await memory.configure_agent(ANA, recall_limit="2")
    assert own(superuser) == {"recall_limit": 2, "rag": False, "persona": "You are the harbour master."}
    await memory.configure_agent(ANA, persona=None, rag=None, user_threshold=None)
    assert own(superuser) == {"recall_limit": 2}
    settings = await memory.agent_settings(ANA)
    assert (settings.recall_limit, settings.rag, settings.persona) == (2, True, None)


async def test_what_is_taken_back_is_the_operators_again(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, persona="You are the pilot.") as memory:
        await memory.configure_agent(ANA, persona="You are the harbour master.")
        await memory.configure_agent(ANA, persona=None)
        assert (await memory.agent_settings(ANA)).persona == "You are the pilot."


async def test_two_calls_at_once_lose_neither(memory: Mnemic, superuser: psycopg.Connection) -> None:
    numbers = {f"{scope}_threshold": 7 for scope in ("agent", "group", "user", "session")}
    await asyncio.gather(*(memory.configure_agent(ANA, **{name: number}) for name, number in numbers.items()))
    assert own(superuser) == numbers


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"refinement_budget_tokens": 200}, MORE),
        ({"refinement_target_tokens": 9000}, "9,000 is more than refinement_budget_tokens, which is 8,000"),
        ({"extraction": "single", "always_in_context": False}, "single forms reflections alone"),
        ({"pool_size": None}, "an agent cannot override pool_size"),
    ],
)
async def test_what_does_not_fit_is_refused_and_writes_nothing(
    memory: Mnemic, superuser: psycopg.Connection, overrides: dict[str, Any], said: str
) -> None:
    before = everything(superuser)
    with pytest.raises(ConfigurationError, match=said):
        await memory.configure_agent(ANA, **overrides)
    assert everything(superuser) == before
    assert own(superuser) == {}


async def test_it_has_to_fit_what_was_set_before(memory: Mnemic, superuser: psycopg.Connection) -> None:
    await memory.configure_agent(ANA, refinement_budget_tokens=200, refinement_target_tokens=100)
    with pytest.raises(ConfigurationError, match=MORE):
        await memory.configure_agent(ANA, refinement_target_tokens=None)
    with pytest.raises(ConfigurationError, match="201 is more than refinement_budget_tokens, which is 200"):
        await memory.configure_agent(ANA, refinement_target_tokens=201)
    await memory.configure_agent(ANA, refinement_budget_tokens=150)
    assert own(superuser) == {"refinement_budget_tokens": 150, "refinement_target_tokens": 100}


async def test_another_agents_are_its_own(memory: Mnemic, superuser: psycopg.Connection) -> None:
    await memory.configure_agent(ANA, recall_limit=2)
    await memory.configure_agent(identity("ana", agent="museum"), rag=False)
    assert own(superuser) == {"recall_limit": 2}


def test_a_target_above_the_budget_is_refused_of_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMIC_REFINEMENT_BUDGET_TOKENS", "200")
    with pytest.raises(
        ConfigurationError, match=MORE.replace("refinement_target_tokens", "MNEMIC_REFINEMENT_TARGET_TOKENS", 1)
    ):
        Settings()
    monkeypatch.setenv("MNEMIC_REFINEMENT_TARGET_TOKENS", "200")
    assert Settings().refinement_target_tokens == 200


async def test_an_operators_later_target_stops_nothing(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, refinement_target_tokens=100) as memory:
        await memory.configure_agent(ANA, refinement_budget_tokens=200)
    model.answer(offering("complete_refinement"), calling(("complete_refinement", {"summary": "Little to do."})))
    says(model, calling(("remember", {"content": "Ana rows.", "category": "interests", "importance": 3})), SAID)
    async with scripted_memory(clean_db, model) as memory:
        assert (await memory.recall(ANA, "Do you remember the bees?"))["degraded"] is None
        done = await turn(memory.graphs.supervisor(memory.checkpointer(ANA)), "Remember that I row.", ANA)
        assert [one.text for one in done["messages"] if one.type != "tool"] == ["Remember that I row.", "", SAID]
        assert done["messages"][2].status == "success"
        await memory.observe(ANA, turns("One.", "Two."))
        assert [run["pending"] for run in await memory.form(ANA)] == [0]
        await memory.remember(ANA, "Ana rows daily.", category="interests")
        await memory.configure_agent(ANA, persona="You are the harbour master.")
        await keep(memory, "Ana rows on the quay.")
        planned = await memory.refine(ANA, "user:ana", force=True, dry_run=True)
        refined = await memory.refine(ANA, "user:ana", force=True)
        assert (planned["target_tokens"], refined["target_tokens"], refined["outcome"]) == (200, 200, "ended")
        assert "tokens now, target 200. Protected: 0 tokens, at most 50." in str(model.chat_requests[-1])
        with pytest.raises(ConfigurationError, match=MORE):  # CONTROL: what is set now has to fit
            await memory.configure_agent(ANA, refinement_budget_tokens=200)


async def test_a_transaction_that_observes_does_not_hold_up_a_new_setting(clean_db: Clone) -> None:
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db:
        async with db.scoped(ANA) as scoped:
            await scopes.enter_agent(scoped)
        async with db.scoped(ANA) as observing:
            await inbox.observe(observing, "s1", [message("Hello.")])
            async with db.scoped(ANA) as configuring:
                await scopes.configure_agent(configuring, {**await scopes.hold_agent(configuring), "rag": False})
            with pytest.raises(DatabaseUnavailableError):  # CONTROL: a lock of the whole row would wait for it
                async with db.scoped(ANA) as locking:
                    await locking.execute("select from agents where agent_id = %(agent_id)s for update", {})
