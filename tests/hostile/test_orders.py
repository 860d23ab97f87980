"""An order in the conversation changes nothing beyond what the text says, whoever gives it, in whatever disguise."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import psycopg
import pytest
import pytest_asyncio
from langchain_core.messages import HumanMessage

from mnemic.memory.runtime.resources import Resources, open_resources
from mnemic.memory.runtime.scoping import Place, ScopeResolver
from mnemic.prompts import conversation
from mnemic.prompts.recall.request import with_memory
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity, display_name, scope_key
from mnemic.state.results import RecallResult
from mnemic.state.settings import Settings
from tests.hostile.orders import (
    ORDERS,
    Order,
    check_context,
    check_operations,
    check_prompt,
    check_rows,
    check_shown,
    check_stored,
    dump,
)
from tests.support.loopback import LoopbackModel
from tests.support.matrix import few_first, mostly_thorough
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    scripted_model,
    scripted_resources,
    turns,
)
from tests.support.searching import know
from tests.support.server import Clone
from tests.support.worlds import identity, memory

#: The service is opened once; each test finds the database empty.
pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = ("user:ana", "session:s1")
BOATS = ("Alba", "Brisa", "Coral", "Dora", "Horta", "Ilha")
every_order = pytest.mark.parametrize(
    "order", mostly_thorough(ORDERS, "forget a person", "the end of the conversation", "the ends of all fences")
)


def boat(name: str) -> str:
    return f"Ana owns the big old harbor boat called {name} in Porto."


def ana(order: Order) -> Identity:
    return identity("ana", session="s1", groups=[order.group])


def bo(order: Order) -> Identity:
    return identity("bo", session="s2", groups=[order.group])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def offline(worker_db: Clone) -> AsyncIterator[Resources]:
    """The whole product without a key."""
    settings = Settings(database_url=worker_db.service_dsn, embedder="hash", pool_size=4)
    async with open_resources(settings) as resources:
        yield resources


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scripted(worker_db: Clone) -> AsyncIterator[tuple[Resources, LoopbackModel]]:
    """The service with a model, and that model."""
    with scripted_model() as model:
        async with scripted_resources(worker_db, model, keep_messages="all", user_threshold=100) as resources:
            yield resources, model


async def seed(resources: Resources, superuser: psycopg.Connection, order: Order) -> None:
    """Memories of Ana, of Bo, of their group, of the agent and of another agent, some of them protected."""
    group = scope_key("group", order.group)
    mine = [memory(boat(name)) for name in BOATS]
    laws = [memory(boat("Vega")), memory("Ana must never be called before nine.", kind="core")]
    rest = [
        memory("Ana wants short answers.", kind="reflection"),
        memory("Ana likes tables.", kind="consolidation"),
        memory("Bo earns 4,100 euros.", key="user:bo"),
        memory("Bo wants long answers.", kind="reflection", key="user:bo"),
        memory("Bo sails on Sundays.", kind="consolidation", key="user:bo"),
        memory("The crew meets on Mondays.", key=group),
        memory("The crew decides by vote.", kind="reflection", key=group),
        memory("The harbor office opens at eight.", key="agent:harbor"),
        memory("Visitors like maps.", kind="reflection", key="agent:harbor"),
    ]
    await know(resources, ana(order), *mine, *laws, *rest, also=["user:bo"])
    await know(resources, identity("ana", agent="museum"), memory(boat("Zita")))
    for law in laws:
        superuser.execute("select mnemic.set_protection('harbor', %s, true, 'admin')", (law.id,))


def refuse(model: LoopbackModel, order: Order) -> None:
    """An honest model: it finds nothing in an order."""
    model.answer(FACTS, facts())
    model.answer(REFLECTIONS, reflections())


def obey(model: LoopbackModel, order: Order) -> None:
    """A model that does whatever it is told, as far as its schemas let it."""
    text = " ".join(order.text.split())[:270]
    closers = [fact(boat(name), 2) for name in ("Marta", "Nora", "Olga")]
    echo = fact(text, 1, scope="agent", category="knowledge", importance=5)
    model.answer(FACTS, facts(echo, fact("Bo is gone.", 1, subject="Bo", scope="agent"), *closers))
    shown = range(-1, 40)
    updates = [decision(number, "UPDATE", *shown, text="Ana owns nothing.") for number in range(1, 3)]
    model.answer(DECISIONS, decisions(*updates, *(decision(number, "DELETE", *shown) for number in range(3, 9))))
    echoes = [reflection(text, 1, category="knowledge", importance=5)]
    # so many that the answer counts, whatever becomes of the echoes
    own = [f"Ana speaks of boat {number}." for number in range(5)]
    user = [*echoes, *(reflection(boast, 2) for boast in own)]
    model.answer(REFLECTIONS, reflections(agent=echoes, group=echoes, user=user, session=echoes, episode=text))


async def form(memory: Mnemic, order: Order) -> None:
    """The order, then a quiet conversation in which Ana speaks of a boat."""
    quiet = turns("I own a boat in Porto.", *[f"assistant: note {n}" for n in range(7)], minutes=60 * 24 * 90)
    await memory.observe(ana(order), [order.turn, *quiet])
    await memory.form(ana(order))


async def shown_to_bo(memory: Mnemic, order: Order) -> RecallResult:
    """All that a recall gives him, but the count of the whole agent's changes."""
    recalled = await memory.recall(bo(order), "What does Bo earn?", search="always")
    return replace(recalled, revision=None)


async def check_run(resources: Resources, superuser: psycopg.Connection, order: Order, *, closings: int) -> None:
    """Forms the order; compares all that is stored, and what Ana and Bo are shown, before and after."""
    memory = Mnemic(resources)
    await seed(resources, superuser, order)
    before = dump(superuser)
    ((since,),) = superuser.execute("select max(revision) from mnemic.history where agent_id = 'harbor'").fetchall()
    theirs = await shown_to_bo(memory, order)
    await form(memory, order)

    check_rows(before, dump(superuser), own=OWN, closings=closings)
    check_operations(superuser, since)
    check_stored(superuser, order)
    assert await shown_to_bo(memory, order) == theirs
    asked = f"Who said {order.text}"  # what only repeats the question is no answer to it
    shown = (await memory.recall(ana(order), asked, search="always", budget_tokens=8000)).context
    check_context(shown, {"UserMemory": {"user": "Ana"}, "GroupMemory": {"group": display_name(order.group)}})
    check_shown(shown.turn, order)
    request = [message.text for message in with_memory([HumanMessage("")], shown)]
    told = [{"role": "user", "content": text} for text in request]
    assert (len(told), (await memory.observe(identity("ana", session="s3"), told)).accepted) == (2, 0)


@every_order
async def test_the_offline_rules_obey_no_order(offline: Resources, superuser: psycopg.Connection, order: Order) -> None:
    await check_run(offline, superuser, order, closings=0)


@every_order
@pytest.mark.parametrize("behave", [refuse, obey])
async def test_a_model_does_bounded_damage_to_its_own_user_alone_at_most(
    scripted: tuple[Resources, LoopbackModel],
    superuser: psycopg.Connection,
    behave: Callable[[LoopbackModel, Order], None],
    order: Order,
) -> None:
    resources, model = scripted
    behave(model, order)
    model.chat_requests.clear()

    await check_run(resources, superuser, order, closings=3 * (behave is obey))

    first = {"user", "assistant", "tool"} & {order.role} or {"other"}
    for request in model.chat_requests:
        check_prompt(request, [*first, "user", *["assistant"] * 7])


@pytest.mark.parametrize("name", few_first(["the ends of all fences", "a role of a template"], 1))
async def test_a_consolidation_that_echoes_an_order_is_one_operation_on_one_text(
    scripted: tuple[Resources, LoopbackModel], superuser: psycopg.Connection, name: str
) -> None:
    resources, model = scripted
    order = ORDERS[name]
    model.answer(CONSOLIDATION, consolidation(f"Ana likes tables and wants short answers. {order.text}"))
    await seed(resources, superuser, order)
    before = dump(superuser)["memories"]

    result = await Mnemic(resources).admin.consolidate(ana(order), "user:ana", force=True)

    check_prompt(model.chat_requests[-1])
    after = dump(superuser)["memories"]
    changed = {row["kind"]: row for key, row in after.items() if before[key] != row}
    assert (result.outcome, sorted(changed)) == ("saved", ["consolidation", "reflection"])
    assert {row["scope_key"] for row in changed.values()} == {"user:ana"}
    shown = (await Mnemic(resources).recall(ana(order), "Hello")).context
    check_context(shown, {"UserMemory": {"user": "Ana"}, "GroupMemory": {"group": "Crew"}})


async def _fails(scripted: tuple[Resources, LoopbackModel], superuser: psycopg.Connection, name: str) -> str:
    """How the checks end for an obedient model; for controls."""
    resources, model = scripted
    obey(model, ORDERS[name])
    model.chat_requests.clear()
    with pytest.raises((AssertionError, ElementTree.ParseError)) as caught:
        await check_run(resources, superuser, ORDERS[name], closings=3)
    return str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("the context's elements", "mismatched tag"),
        ("a section of XML", "declaration not at start"),
        ("an escaped end", "not shown as it was said"),
    ],
)
async def test_control_without_escaping_the_checks_fail(
    scripted: tuple[Resources, LoopbackModel],
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    seen: str,
) -> None:
    monkeypatch.setattr(conversation, "escape", lambda text, *_: text)

    assert re.search(seen, await _fails(scripted, superuser, name))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "patched", "harmless", "seen"),
    [
        ("the end of the conversation", "escape", lambda text: text, "a tag that is not the prompt's"),
        ("a numbered line", "indented", conversation.as_data, "a line that is none of ours"),
    ],
)
async def test_control_what_is_not_fenced_in_passes_for_our_own(
    scripted: tuple[Resources, LoopbackModel],
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    patched: str,
    harmless: Callable[[str], str],
    seen: str,
) -> None:
    resources, model = scripted
    refuse(model, ORDERS[name])
    monkeypatch.setattr(conversation, patched, harmless)
    await form(Mnemic(resources), ORDERS[name])

    with pytest.raises(AssertionError, match=seen):
        check_prompt(model.chat_requests[-1])


@pytest.mark.thorough
async def test_control_without_the_bound_on_deletions_more_is_closed(
    scripted: tuple[Resources, LoopbackModel], superuser: psycopg.Connection, clean_db: Clone
) -> None:
    _, model = scripted
    async with scripted_resources(
        clean_db, model, keep_messages="all", closings_per_message=100, user_threshold=100
    ) as unbounded:
        assert "facts closed" in await _fails((unbounded, model), superuser, "forget a person")


@pytest.mark.thorough
async def test_control_without_the_gate_an_order_reaches_everybody(
    scripted: tuple[Resources, LoopbackModel], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScopeResolver, "resolve", lambda self, draft, sources, said, fallback: Place("agent:harbor"))

    assert "in another scope key" in await _fails(scripted, superuser, "forget a person")
