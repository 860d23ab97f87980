"""The `Mnemic` object: what an application opens, asks and is refused; updates; what an agent overrides."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from mnemic import Mnemic, Settings
from mnemic.state.errors import ConfigurationError, DatabaseSetupError, DatabaseUnavailableError
from mnemic.state.query import Bullet
from mnemic.storage import inbox, scopes, violations
from tests.support.agents import VISIBLE, says, turn
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.mutating import carry_out
from tests.support.refinements import keep
from tests.support.rollbacks import everything
from tests.support.scripted import (
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity, message, text_of

ANA = identity("ana", session="s1")
KEPT = "Ana keeps bees on the north quay."
BOAT = "Ana sails a red boat to Horten."


async def test_without_a_key_what_was_said_is_found_again(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn) as memory:
        await memory.observe(ANA, turns("I live in Lisbon with my sister Inês.", "assistant: How nice."))
        runs = await memory.form(ANA)
        context = text_of((await memory.recall(identity("ana"), "Do you remember where I live?")).context)

        assert memory.admin.describe().startswith("model: offline rules; embedder: minilm")
        assert memory.settings.kept_messages == "all"
        assert [run.formed for run in runs] == [2]
        assert "Lisbon" in context
        assert await memory.usage.tokens(ANA) == []


async def test_arguments_beat_the_environment(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", "host=/nowhere")
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    monkeypatch.setenv("MNEMIC_RECALL_LIMIT", "3")
    async with Mnemic.open(database_url=clean_db.service_dsn, settings=Settings(recall_limit=7)) as memory:
        assert memory.settings.recall_limit == 7
        assert "hash" in memory.admin.describe()


async def test_an_operators_own_phrases_ask_for_a_search(clean_db: Clone, tmp_path: Path) -> None:
    file = tmp_path / "requests.yaml"
    file.write_text("sv: [... minns du]", encoding="utf-8")
    async with Mnemic.open(
        database_url=clean_db.service_dsn, embedder="hash", settings=Settings(recall_requests_file=file)
    ) as memory:
        assert (await memory.recall(ANA, "Och minns du hamnen?")).searched == "phrase"


async def test_memories_are_listed_by_kind_and_number_the_newest_first(memory: Mnemic) -> None:
    for content, kind in ((KEPT, "fact"), ("Ana wants short answers.", "core"), (BOAT, "fact")):
        await memory.remember(ANA, content, category="activity", kind=kind)  # type: ignore[arg-type]
    assert [item.content for item in await memory.memories(ANA, ["fact"])] == [BOAT, KEPT]
    assert [item.content for item in await memory.memories(ANA, ["fact"], limit=1)] == [BOAT]
    assert {item.kind for item in await memory.memories(ANA)} == {"fact", "core"}


async def test_a_sentence_said_twice_takes_one_line(memory: Mnemic) -> None:
    await memory.observe(ANA, turns(KEPT, "Well.", KEPT, "Good."))
    await memory.admin.configure_agent(ANA, keep_messages="all")
    await memory.form(ANA)

    context = await memory.recall(ANA, "Do you remember the bees on the quay?")
    assert text_of(context.context).count(KEPT) == 1


# -- what became of memories since a revision


OWN = ANA.model_copy(update={"role": "owner"})
KEPT = "Ana keeps bees."


async def test_what_is_remembered_and_forgotten_is_told_once_each(memory: Mnemic) -> None:
    begun = await memory.history.updates(OWN)
    assert (begun.revision, begun.bullets) == (0, ())
    kept = await memory.remember(ANA, KEPT, category="activity")
    assert kept.id
    told = await memory.history.updates(OWN, begun.revision)
    assert told.bullets == (Bullet(sign="+created", category="activity", text=KEPT, importance=3),)
    assert (await memory.history.updates(OWN, told.revision)).bullets == ()
    assert (await memory.history.updates(OWN)).bullets == ()  # where it stands, and nothing else
    assert len((await memory.history.updates(ANA, 0)).bullets) == 1
    for other in (identity("bob", session="s1"), ANA.model_copy(update={"role": "planner"})):
        assert (await memory.history.updates(other, 0)).bullets == ()

    await memory.forget(ANA, kept.id)
    gone = await memory.history.updates(OWN, told.revision)
    assert gone.bullets == (Bullet(sign="~soft-deleted", category="activity", text="", kind="fact"),)
    assert gone.revision > told.revision


# -- what an agent overrides of the settings


MORE = "refinement_target_tokens: 5,000 is more than refinement_budget_tokens, which is 200: set both"
LITTLE = {"refinement_budget_tokens": 200, "refinement_target_tokens": 100}


def own(superuser: psycopg.Connection) -> dict[str, Any]:
    rows = superuser.execute("select settings from mnemic.agents where agent_id = 'harbor'").fetchall()
    return rows[0][0] if rows else {}


async def test_what_was_set_before_stays_until_none_takes_it_back(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    await memory.admin.configure_agent(ANA, recall_limit=3, persona="You are the harbour master.")
    await memory.admin.configure_agent(ANA, rag=False)
    await memory.admin.configure_agent(ANA, recall_limit="2")
    assert own(superuser) == {"recall_limit": 2, "rag": False, "persona": "You are the harbour master."}
    await memory.admin.configure_agent(ANA, persona=None, rag=None, user_threshold=None)
    assert own(superuser) == {"recall_limit": 2}
    settings = await memory.admin.agent_settings(ANA)
    assert (settings.recall_limit, settings.rag, settings.persona) == (2, True, None)


async def test_two_calls_at_once_lose_neither(memory: Mnemic, superuser: psycopg.Connection) -> None:
    numbers = {f"{scope}_threshold": 7 for scope in ("agent", "group", "user", "session")}
    await asyncio.gather(*(memory.admin.configure_agent(ANA, **{name: number}) for name, number in numbers.items()))
    assert own(superuser) == numbers


@pytest.mark.parametrize(
    ("before", "overrides", "said"),
    [
        ({}, {"refinement_budget_tokens": 200}, MORE),
        ({}, {"refinement_target_tokens": 9000}, "9,000 is more than refinement_budget_tokens, which is 8,000"),
        ({}, {"extraction": "single", "always_in_context": False}, "extracts only reflections"),
        ({}, {"pool_size": None}, "an agent cannot override pool_size"),
        (LITTLE, {"refinement_target_tokens": None}, MORE),
        (LITTLE, {"refinement_target_tokens": 201}, "201 is more than refinement_budget_tokens, which is 200"),
    ],
)
async def test_what_does_not_fit_is_refused_and_writes_nothing(
    memory: Mnemic, superuser: psycopg.Connection, before: dict[str, Any], overrides: dict[str, Any], said: str
) -> None:
    await memory.admin.configure_agent(ANA, **before)
    stored = everything(superuser)
    with pytest.raises(ConfigurationError, match=said):
        await memory.admin.configure_agent(ANA, **overrides)
    assert everything(superuser) == stored
    assert own(superuser) == before


def test_a_target_above_the_budget_is_refused_of_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMIC_REFINEMENT_BUDGET_TOKENS", "200")
    with pytest.raises(
        ConfigurationError, match=MORE.replace("refinement_target_tokens", "MNEMIC_REFINEMENT_TARGET_TOKENS", 1)
    ):
        Settings()
    monkeypatch.setenv("MNEMIC_REFINEMENT_TARGET_TOKENS", "200")
    assert Settings().refinement_target_tokens == 200


async def test_a_name_that_is_no_setting_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"pool_sise.*pool_size"):
        async with Mnemic.open(settings=Settings(pool_sise=3)):
            pass
    monkeypatch.setenv("MNEMIC_PG_BINDIR", "/usr/bin")
    Settings()
    monkeypatch.setenv("MNEMIC_POOL_SISE", "3")
    with pytest.raises(ConfigurationError, match=r"MNEMIC_POOL_SISE.*MNEMIC_POOL_SIZE"):
        async with Mnemic.open():
            pass


async def test_an_operators_later_target_stops_nothing(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, refinement_target_tokens=100) as memory:
        await memory.admin.configure_agent(ANA, refinement_budget_tokens=200)
    model.answer(offering("complete_refinement"), calling(("complete_refinement", {"summary": "Little to do."})))
    says(model, calling(("remember", {"content": "Ana rows.", "category": "activity", "importance": 3})), VISIBLE)
    async with scripted_memory(clean_db, model) as memory:
        assert (await memory.recall(ANA, "Do you remember the bees?")).degraded is None
        done = await turn(memory.graphs.supervisor(memory.threads.checkpointer(ANA)), "Remember that I row.", ANA)
        assert [item.text for item in done["messages"] if item.type != "tool"] == ["Remember that I row.", "", VISIBLE]
        assert done["messages"][2].status == "success"
        await memory.observe(ANA, turns("One.", "Two."))
        assert [run.pending for run in await memory.form(ANA)] == [0]
        await memory.remember(ANA, "Ana rows daily.", category="activity")
        await memory.admin.configure_agent(ANA, persona="You are the harbour master.")
        await keep(memory, "Ana rows on the quay.")
        planned = await memory.refine(ANA, "user:ana", force=True, dry_run=True)
        refined = await memory.refine(ANA, "user:ana", force=True)
        assert (planned.target_tokens, refined.target_tokens, refined.outcome) == (200, 200, "ended")
        assert "tokens now, target 200. Protected: 0 tokens, at most 50." in str(model.chat_requests[-1])
        with pytest.raises(ConfigurationError, match=MORE):  # CONTROL: what is set now has to fit
            await memory.admin.configure_agent(ANA, refinement_budget_tokens=200)


async def test_a_transaction_that_observes_does_not_hold_up_a_new_setting(clean_db: Clone) -> None:
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db:
        async with db.transaction(ANA) as tx:
            await scopes.ensure_agent(tx)
        async with db.transaction(ANA) as observing:
            await inbox.observe(observing, "s1", [message("Hello.")])
            async with db.transaction(ANA) as configuring:
                await scopes.configure_agent(configuring, {**await scopes.lock_agent(configuring), "rag": False})
            with pytest.raises(DatabaseUnavailableError):  # CONTROL: a lock of the whole row would wait for it
                async with db.transaction(ANA) as locking:
                    await locking.execute("select from agents where agent_id = %(agent_id)s for update", {})


# -- nothing starts on a set-up that would not keep what Mnemic promises


async def refused(dsn: str) -> str:
    """What opening the database is refused with; nothing where it opens."""
    try:
        async with Mnemic.open(database_url=dsn, embedder="hash"):
            return ""
    except DatabaseSetupError as refusal:
        return str(refusal)


async def test_a_broken_database_is_refused_until_the_remedy_is_carried_out(fresh_db: Clone) -> None:
    """Smoke test of the face; what the doctor finds is tested at the doctor."""
    assert await refused(fresh_db.service_dsn) == ""
    with fresh_db.as_superuser() as connection:
        connection.execute("alter table mnemic.memories no force row level security")
    told = await refused(fresh_db.service_dsn)
    assert "alter table mnemic.memories enable row level security" in told
    assert len(carry_out(fresh_db, told)) == 1
    assert await refused(fresh_db.service_dsn) == ""


async def test_a_server_without_the_fixes_of_row_security_is_refused(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts as fixed is moved, not the server."""
    with fresh_db.as_superuser() as connection:
        number = connection.info.server_version
        (version,) = connection.execute("select current_setting('server_version')").fetchone() or ("",)
    assert violations.FIXED_SERVERS == (150014, 160010, 170006)  # CVE-2025-8713
    monkeypatch.setattr(violations, "FIXED_SERVERS", (number + 1,))
    told = await refused(fresh_db.service_dsn)
    assert f"- server: Postgres {version}: " in told
    assert "install Postgres 15.14, 16.10, 17.6 or newer" in told
    # a release after that one, and whatever is fixed in other majors
    monkeypatch.setattr(violations, "FIXED_SERVERS", (number, number + 10_000, number - 10_000))
    assert await refused(fresh_db.service_dsn) == ""


@pytest.mark.thorough
async def test_what_a_view_without_the_remedy_would_show(fresh_db: Clone) -> None:
    """The control: rows of other agents are to be seen, and after the remedy none is."""
    with fresh_db.as_superuser() as connection:
        connection.execute(
            "insert into mnemic.agents (agent_id) values ('harbor');"
            " create view public.leak as select * from mnemic.agents; grant select on public.leak to mnemic_app"
        )
    count = sql.SQL("select count(*) from public.leak")
    with fresh_db.as_role("mnemic_app") as service:
        assert service.execute(count).fetchone() == (1,)
        carry_out(fresh_db, await refused(fresh_db.service_dsn))
        assert service.execute(count).fetchone() == (0,)
