"""`stats` and `metrics`: counts over time of an agent or a tenant, and figures for Prometheus."""

import json
from datetime import UTC, datetime, timedelta

import psycopg

from mnemic import Mnemic
from mnemic.service.metrics import metrics_text
from mnemic.state.events import Event
from mnemic.storage.database import Database
from tests.background.test_budget import spend
from tests.service.cli.conftest import Command, prepare
from tests.service.cli.conftest import env as env
from tests.service.cli.conftest import mnemic as mnemic
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, fact, facts, turns
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="monday")
BOB = identity("bob", agent="museum", session="tuesday")
TODAY = datetime.now(UTC).date()


async def live(memory: Mnemic, model: LoopbackModel) -> None:
    """Ana's agent of the tenant `north` has a memory, Bob's of `south` two."""
    await memory.admin.assign_tenant(ANA, "north")
    await memory.admin.assign_tenant(BOB, "south")
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    await memory.observe(ANA, turns("I keep bees.", "assistant: Good."))
    await memory.form(ANA, force=True)
    await memory.remember(BOB, "Bob sails on Friday.", category="activity")
    await memory.remember(BOB, "Bob paints ships.", category="activity")


async def test_counts_are_by_day_kind_and_step_and_add_up(memory: Mnemic, model: LoopbackModel) -> None:
    await live(memory, model)
    found = await memory.usage.stats(ANA)
    tokens = sum(used.input_tokens + used.output_tokens for used in await memory.usage.tokens(ANA))

    by_measure = {(count.measure, count.name): count.amount for count in found.counts if count.measure != "events"}
    assert by_measure["memories", "fact"] == 1
    assert by_measure["messages", "user"] == by_measure["messages", "assistant"] == 1
    assert {count.day for count in found.counts} == {TODAY}
    summed = {count.measure: count for count in (await memory.usage.stats(ANA, by=[])).counts}
    assert summed["tokens"].amount == tokens > 0
    assert summed["tokens"].day is None
    assert summed["events"].amount == sum(count.amount for count in found.counts if count.measure == "events")
    assert (await memory.usage.stats(ANA, before=TODAY)).counts == []
    assert (await memory.usage.stats(ANA, since=TODAY + timedelta(days=1))).counts == []


async def test_counts_of_two_tenants_never_mix(memory: Mnemic, model: LoopbackModel) -> None:
    await live(memory, model)
    north, south = await memory.usage.tenant_stats("north"), await memory.usage.tenant_stats("south")

    def amounts(measure: str, **wanted: str) -> list[int]:
        return [
            sum(
                count.amount
                for count in stats.counts
                if count.measure == measure and all(getattr(count, key) == value for key, value in wanted.items())
            )
            for stats in (north, south)
        ]

    assert amounts("memories", name="fact") == [1, 2]
    assert amounts("events", name="explicit", op="create") == [0, 2]
    assert amounts("events", name="formation", op="create") == [1, 0]
    assert amounts("tokens") == [north.tokens_today, 0]
    assert (await memory.usage.tenant_stats("east")).counts == []


async def test_a_transaction_sees_and_deletes_events_of_its_own_agent_alone(
    db: Database, memory: Mnemic, superuser: psycopg.Connection
) -> None:
    for who in (ANA, BOB):
        memory.resources.events.note(Event(agent_id=who.agent_id, node="worker", op="form"))
    await memory.resources.events.write(memory.resources.database)

    async with db.transaction(ANA) as tx:
        assert await tx.tuples("select distinct agent_id from events", {}) == [(ANA.agent_id,)]
        assert await tx.tuples("delete from events where agent_id <> %(agent_id)s returning 1", {}) == []

    superuser.execute("alter table mnemic.events disable row level security")
    try:  # the control: the policy alone keeps them apart
        async with db.transaction(ANA) as tx:
            assert len(await tx.tuples("select distinct agent_id from events", {})) == 2
    finally:
        superuser.execute("alter table mnemic.events enable row level security")


async def test_the_context_is_measured_against_the_budget(memory: Mnemic) -> None:
    await memory.admin.configure_agent(ANA, refinement_budget_tokens=5, refinement_target_tokens=4)
    await memory.remember(ANA, "Ana wants every answer in two sentences at most.", category="goals", kind="core")
    (size,) = (await memory.usage.stats(ANA)).context

    assert (size.scope, size.scope_keys, size.over_budget) == ("user", 1, 1)
    assert size.largest_tokens == size.total_tokens == 12


async def test_metrics_are_read_by_a_parser_and_have_no_ids(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    await live(memory, model)
    await memory.recall(ANA, "Where are my bees?", search="always")
    superuser.execute(
        "insert into mnemic.job_failures values ('harbor', 'form', 'session:monday', 'away', 1, now(), null)"
    )
    text = await metrics_text(memory.resources)
    samples = {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(name: str, *labels: str) -> float:
        return samples[name, frozenset(labels)]

    assert value("mnemic_failed_jobs", "form", "failed") == 1
    assert value("mnemic_model_calls_total", "extract_facts") == 1
    assert value("mnemic_model_tokens_total", "extract_facts", "input") > 0
    assert value("mnemic_event_seconds_count", "recall", "search", "ok") == 1
    assert value("mnemic_event_seconds_bucket", "recall", "search", "ok", "+Inf") == 1
    assert value("mnemic_pool", "size") >= 1
    for word in ("ana", "bob", "harbor", "museum", "bees", "monday"):
        assert f'"{word}"' not in text
    assert "mnemic_event" not in await metrics_text(memory.resources, with_process=False)


def test_the_command_draws_each_day_and_refuses_two_subjects(
    mnemic: Command, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    prepare(clean_db, lambda database: spend(database, ANA, 1234))
    earlier = (
        "insert into mnemic.token_usage (agent_id, day, step, model, calls, input_tokens, output_tokens)"
        " select agent_id, day - 2, step, model, 1, 617, 0 from mnemic.token_usage"
    )
    superuser.execute(earlier)

    shown = mnemic("stats", "--agent", "harbor", "--days", "3").stdout
    (tokens,) = [line for line in shown.splitlines() if line.startswith("tokens  ")]
    assert "▄.█" in tokens
    assert "1,234" in tokens
    assert "1,851" in tokens
    document = json.loads(mnemic("stats", "--tenant", "default", "--json").stdout)
    assert sum(row["amount"] for row in document["counts"] if row["measure"] == "tokens") == 1851
    assert "mnemic_model_tokens_total" in mnemic("metrics").stdout
    assert mnemic("stats", "--agent", "harbor", "--tenant", "default").exit_code == 2
