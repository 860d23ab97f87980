"""The daily maintenance: what expires, what stays, and how a run is recorded and undone."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from mnemic import Administration, Identity, Mnemic
from mnemic.memory.background.sweep import sweep
from mnemic.memory.background.work import Work
from mnemic.nodes.maintenance import maintain_agent
from mnemic.service.worker import background_work
from mnemic.state.background import Target
from mnemic.state.errors import RefusedIdentityError, UnknownOperationError
from mnemic.state.records import NewMemory
from mnemic.state.settings import Settings
from mnemic.storage import background
from mnemic.storage.maintenance import ExpiryRule, expire
from mnemic.storage.queue import open_queue
from tests.background.test_jobs import until
from tests.background.working import SHORT
from tests.nodes.test_run_identity import run as request_of_ana
from tests.support.erasing import form, problems
from tests.support.loopback import LoopbackModel
from tests.support.mutating import mutate
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, message, remember, text_of

ANA = identity(session="s1")
BO = identity("bo")
OWNER = ANA.model_copy(update={"role": "owner"})


@pytest.fixture
async def service(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    async with scripted_memory(clean_db, model) as opened:
        yield opened


def sailing(text: str, **given: Any) -> NewMemory:
    """A memory that is searched and not always in context."""
    return replace(memory(text, **given), category="activity")


async def store(service: Mnemic, *new: NewMemory, who: Identity = ANA) -> None:
    await remember(service.resources.database, who, *new, also=[item.scope_key for item in new])


def pass_days(superuser: psycopg.Connection, days: int) -> None:
    """All that happened, happened so much earlier."""
    with superuser.transaction():
        superuser.execute("set local session_replication_role = replica")
        for table, column in (
            ("memories", "updated_at"),
            ("memories", "created_at"),
            ("memory_use", "last_accessed_at"),
            ("history", "ts"),
            ("supervisor_checkpoints", "updated_at"),
        ):
            statement = f"update mnemic.{table} set {column} = {column} - make_interval(days => {days})"
            superuser.execute(statement.encode())


async def contents(service: Mnemic, who: Identity = OWNER) -> set[str]:
    return {item.content for item in await service.memories(who)}


async def everywhere(service: Mnemic, question: str, who: Identity = OWNER) -> str:
    """All that a list, a search and a recall show of a question."""
    found = [item.content for item in await service.query(who, question, search_type="text", top_k=20)]
    recalled = await service.recall(ANA, question, search="always")
    return " ".join([*found, *await contents(service, who), text_of(recalled.context)])


# -- what expires


async def unused(service: Mnemic, superuser: psycopg.Connection) -> None:
    """Of memories that are 61 days old only the one without a reason to stay expires."""
    places = ("Sines", "Faro", "Lagos", "Olhao", "Lagoa")
    old, pinned, protected, important, recalled = (sailing(f"Ana sails to {place}.") for place in places)
    core, reflection = sailing("Ana is a sailor.", kind="core"), sailing("Ana sails to rest.", kind="reflection")
    profile = memory("Ana has a sailing licence.")
    await store(service, old, pinned, protected, important, recalled, core, reflection, profile)
    await service.update(OWNER, pinned.id, pinned=True)
    await service.update(OWNER, important.id, importance=3)
    superuser.execute("select mnemic.set_protection(%s, %s, true, 'keeper')", (AGENT, protected.id))
    pass_days(superuser, 61)
    superuser.execute(
        "insert into mnemic.memory_use values (%s, %s, 'user:ana', 1, clock_timestamp())", (AGENT, recalled.id)
    )
    fresh = sailing("Ana sails since Friday.")
    await store(service, fresh)
    kept = {item.content for item in (pinned, protected, important, recalled, core, reflection, profile, fresh)}

    run = await service.admin.maintain(ANA)

    assert run.counts["unused"] == 1
    assert await contents(service) == kept


async def test_only_what_was_not_used_expires_and_only_once(service: Mnemic, superuser: psycopg.Connection) -> None:
    await unused(service, superuser)
    again = await service.admin.maintain(ANA)

    assert not any(again.counts.values())
    assert [run.id == again.id for run in await service.admin.maintenance_runs(ANA)] == [True, False]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "instead"),
    [
        ("not m.pinned and ", ""),
        (" and not m.protected", ""),
        ("m.importance < (p_rule ->> 'importance')::integer", "true"),
        ("greatest(m.updated_at, u.last_accessed_at)", "m.updated_at"),
        ("not p_rule -> 'always' ? m.category", "true"),
        ("m.kind in ('fact', 'episode', 'insight') and ", ""),
    ],
)
async def test_without_a_rule_a_memory_that_stays_is_lost(
    fresh_db: Clone, model: LoopbackModel, rule: str, instead: str
) -> None:
    async with scripted_memory(fresh_db, model) as service:
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "expired_memories", rule, instead)
            with pytest.raises(AssertionError):
                await unused(service, superuser)


async def test_a_memory_whose_day_has_passed_is_closed(service: Mnemic, superuser: psycopg.Connection) -> None:
    plan, later, pinned = (sailing(f"Ana sails to {place}.") for place in ("Sines", "Faro", "Lagos"))
    await store(service, plan, later, pinned)
    for item in (plan, pinned):
        await service.update(OWNER, item.id, importance=5, valid_until=datetime.now(UTC) - timedelta(minutes=1))
    await service.update(OWNER, later.id, valid_until=datetime.now(UTC) + timedelta(days=1))
    await service.update(OWNER, pinned.id, pinned=True)

    run = await service.admin.maintain(ANA)

    assert (run.counts["past"], run.counts["unused"]) == (1, 0)
    assert await contents(service) == {later.content, pinned.content}


# -- what is gone, and comes back


async def test_what_expired_is_nowhere_and_one_act_brings_it_back(service: Mnemic, clean_db: Clone) -> None:
    said = message("I keep a quokka on board.")
    hers, his = sailing("Ana keeps a quokka.", sources=[said]), sailing("Bo keeps a quokka.", key="user:bo")
    await form(service.resources.database, ANA, [said], hers)
    await store(service, his)
    await service.observe(ANA, [{"role": "user", "content": "Hello."}])
    before = await everywhere(service, "quokka")
    assert before.count("quokka") > 2
    rule = ExpiryRule(days=0, importance=6, always=(), purge_after_days=None)
    run = await service.admin.maintain(ANA)  # nothing is old enough
    await service.resources.database.write(ANA, partial(expire, rule=rule, run_id=run.id))

    gone = await everywhere(service, "quokka")
    assert "quokka" not in gone.split("<Updates", 1)[0]
    assert "quokka" not in " ".join(item.content for item in await service.query(OWNER, "quokka", search_type="text"))
    assert await contents(service, BO.model_copy(update={"role": "owner"})) == set()
    (event,) = [item for item in await service.history.events(OWNER, hers.id) if item.event == "TTL"]
    assert (event.actor, event.reason) == ("ana", "ttl")

    async with Administration.open(
        admin_url=clean_db.administrator_dsn, settings=Settings(database_url=clean_db.service_dsn)
    ) as administration:
        undone = await administration.history.undo_run(Identity(agent_id=AGENT), run.id)
    assert {change.id for change in undone.changes} == {hers.id, his.id}
    assert await contents(service, BO.model_copy(update={"role": "owner"})) == {his.content}
    assert sorted((await everywhere(service, "quokka")).split()) == sorted(before.split())
    assert not any((await service.admin.maintain(ANA)).counts.values())  # it counts as used now
    assert problems(clean_db) == []


@pytest.mark.thorough
async def test_without_its_rule_the_words_that_it_was_formed_from_are_found(
    fresh_db: Clone, model: LoopbackModel
) -> None:
    async with scripted_memory(fresh_db, model) as service:
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "expire_memories", "set searchable = false", "set searchable = e.searchable")
            with pytest.raises(AssertionError):
                await test_what_expired_is_nowhere_and_one_act_brings_it_back(service, fresh_db)


async def test_a_person_undoes_their_own_part_of_a_run(service: Mnemic, superuser: psycopg.Connection) -> None:
    hers, his = sailing("Ana sails."), sailing("Bo rows.", key="user:bo")
    await store(service, hers, his)
    pass_days(superuser, 61)
    run = await service.admin.maintain(Identity(agent_id=AGENT))

    await service.history.undo_run(ANA, run.id)

    assert await contents(service) == {hers.content}
    assert await contents(service, BO.model_copy(update={"role": "owner"})) == set()
    with pytest.raises(UnknownOperationError):
        await service.history.undo_run(identity("cleo"), run.id)


async def test_an_expiry_is_announced_once(service: Mnemic, superuser: psycopg.Connection) -> None:
    await store(service, sailing("Ana sails."))
    first = await service.recall(ANA, "Who sails?", search="always")
    await service.observe(ANA, [{"role": "user", "content": "Who sails?"}], revision=first.revision)
    pass_days(superuser, 61)
    await service.admin.maintain(ANA)

    told = await service.recall(ANA)
    await service.observe(ANA, [{"role": "user", "content": "And now?"}], revision=told.revision)
    after = await service.recall(ANA)

    assert "soft-deleted" in text_of(told.context)
    assert "soft-deleted" not in text_of(after.context)


# -- purge and threads


async def test_the_service_purges_only_if_a_setting_says_when(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    gone = sailing("Ana sails.")
    async with scripted_memory(clean_db, model) as service:
        await store(service, gone)
        pass_days(superuser, 61)
        await service.admin.maintain(ANA)
        pass_days(superuser, 400)
        assert (await service.admin.maintain(ANA)).counts["purged"] == 0
    async with scripted_memory(clean_db, model, retention_purge_after_days=30) as service:
        planned = await service.admin.maintain(ANA, dry_run=True)
        run = await service.admin.maintain(ANA)

        assert (planned.counts["purged"], run.counts["purged"]) == (1, 1)
        assert [event.event for event in await service.history.events(OWNER, gone.id)] == ["ADD", "TTL", "PURGE"]
        with pytest.raises(UnknownOperationError):  # there is no way back
            await service.history.undo_run(ANA, run.id)


async def test_old_threads_keep_their_latest_checkpoint(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model, thread_prune_days=30) as service:
        await store(service)
        for who, thread in ((ANA, "old"), (BO, "old"), (ANA, "new")):
            if thread == "new":
                pass_days(superuser, 31)
            for step in range(3):
                config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
                await service.threads.checkpointer(who).aput(config, empty_checkpoint(), {"step": step}, {})
        assert (await service.admin.maintain(ANA, dry_run=True)).counts["threads"] == 2
        assert (await service.admin.maintain(ANA)).counts["threads"] == 2
        assert (await service.admin.maintain(ANA)).counts["threads"] == 0
        kept = [len([item async for item in service.threads.checkpointer(who).alist(None)]) for who in (ANA, BO)]

    assert kept == [1 + 3, 1]


# -- the job, its record and its failures


async def test_a_dry_run_by_setting_records_what_it_would_do(service: Mnemic, superuser: psycopg.Connection) -> None:
    await store(service, sailing("Ana sails."))
    pass_days(superuser, 61)
    await service.admin.configure_agent(ANA, maintenance_dry_run=True)
    shown = await service.admin.maintain(ANA)
    assert (shown.is_dry_run, shown.counts["unused"], len(await contents(service))) == (True, 1, 1)

    done = await service.admin.maintain(ANA, dry_run=False)

    assert (done.is_dry_run, done.counts["unused"], await contents(service)) == (False, 1, set())


async def test_it_runs_daily_and_the_tenants_are_spread(service: Mnemic) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    agents = [f"agent{number}" for number in range(8)]
    async with open_queue(service.resources.database) as queue:
        work = Work(service.resources, service.graphs, queue)
        for agent in agents:
            await service.admin.configure_agent(Identity(agent_id=agent), ttl_days=30)
        with_tenants = "update agents set tenant_id = agent_id where agent_id = %(agent_id)s"
        for agent in agents:
            who = Identity(agent_id=agent)
            await service.resources.database.write(who, lambda tx: tx.execute(with_tenants, {}))
        await sweep(work, now)
        listed = await background.list_schedules(service.resources.database, 100)
        fires = {item.next_at for item in listed if item.job == "maintain"}
        assert len(fires) > 4
        three = datetime(2026, 3, 2, 3, tzinfo=UTC)
        assert all(three <= fire < three + timedelta(hours=2) for fire in fires)
        await sweep(work, three + timedelta(hours=2))
        queued = {job.agent_id for job in await queue.jobs() if job.job == "maintain"}

    assert queued == set(agents)


async def test_a_step_that_fails_stops_no_other_and_is_tried_again(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with (
        scripted_memory(clean_db, model, retention_purge_after_days=30, thread_prune_days=30) as service,
        background_work(service.resources, service.graphs, SHORT) as work,
    ):
        database = service.resources.database
        await store(service, sailing("Ana sails."))
        pass_days(superuser, 61)
        superuser.execute("revoke execute on function mnemic.purge_expired from mnemic_app")
        await work.queue.wake("maintain", [Target(AGENT, f"agent:{AGENT}")])
        (failed,) = await until(lambda: background.list_failures(database, 10))

        (run,) = await service.admin.maintenance_runs(ANA)
        assert (run.failed, run.counts["unused"], run.counts["threads"]) == (["purge"], 1, 0)
        superuser.execute("grant execute on function mnemic.purge_expired to mnemic_app")
        await sweep(work, failed.retry_at)

        async def is_mended() -> bool:
            return not await background.list_failures(database, 10)

        await until(is_mended)
        again, _ = await service.admin.maintenance_runs(ANA)
        assert (again.failed, again.actor) == ([], "mnemic")


async def test_the_graph_does_it_for_a_host_and_not_for_a_request_of_a_user(
    service: Mnemic, superuser: psycopg.Connection
) -> None:
    await store(service, sailing("Ana sails."))
    pass_days(superuser, 61)
    who = Identity(agent_id=AGENT)

    result = await service.graphs.maintenance.ainvoke({}, context=who)

    (recorded,) = await service.admin.maintenance_runs(who)
    assert (UUID(result["run_id"]), result["counts"]["unused"]) == (recorded.id, 1)

    with pytest.raises(RefusedIdentityError):
        await maintain_agent({}, service.resources, request_of_ana())
    assert len(await service.admin.maintenance_runs(who)) == 1
