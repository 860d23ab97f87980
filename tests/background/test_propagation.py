"""Memories are raised to a group or to everybody by what people typed, whatever a model answers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Identity, Mnemic
from mnemic.memory.background import propagation as raising
from mnemic.memory.background.jobs import JOBS
from mnemic.memory.background.propagation import propagate, withdraw
from mnemic.memory.background.propagation_rules import Claim, Evidence
from mnemic.memory.background.work import Work
from mnemic.memory.runtime.embedding import embed_to_store
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.prompts.background.propagate import PropagateOutput
from mnemic.service.worker import finish_due_work
from mnemic.state.background import Target
from mnemic.state.errors import ModelOutputError
from mnemic.state.records import CANDIDATE, NewMemory, Relation, Supersession
from mnemic.storage import memories
from mnemic.storage.background import due_targets
from mnemic.storage.queue import open_queue
from tests.support.loopback import LoopbackModel, Request
from tests.support.matrix import mostly_thorough
from tests.support.scripted import CONSOLIDATION, asked, consolidation
from tests.support.worlds import MORNING, identity, remember

RAISED = PropagateOutput.__name__
USER = Target("harbor", "user:ana")
ANA = identity("ana", session="s1", groups=["crew"])
BO = identity("bo", session="s2", groups=["crew"])
PLAN = "The crew sails on Friday at seven from the north quay."


def always_yes(request: Request) -> PropagateOutput:
    """All numbers that the prompt has, and some that it has not."""
    prompt = request["messages"][-1]["content"]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", prompt, re.MULTILINE)]
    return PropagateOutput(numbers=[-1, 0, *numbers, 4000])


@pytest.fixture
def model(model: LoopbackModel) -> LoopbackModel:
    """A model that would have everything shared."""
    model.answer(RAISED, always_yes)
    return model


async def said(memory: Mnemic, superuser: psycopg.Connection, who: Identity, *texts: str, **turn: Any) -> list[UUID]:
    """Observe texts in a session; return the ids of their messages."""
    rows = [{"role": "user", "content": text, "time": MORNING.isoformat(), **turn} for text in texts]
    await memory.observe(who, rows, several_speakers="user" in turn)
    found = superuser.execute(
        "select content, id from mnemic.messages where session_id = %s and content = any(%s)",
        (who.session_id, list(texts)),
    )
    ids: dict[str, UUID] = dict(found.fetchall())
    return [ids[text] for text in texts]


def formed(text: str, *sources: UUID, key: str = "user:ana", category: str = "projects", **fields: Any) -> NewMemory:
    """A fact that rests on these messages."""
    new = new_memory("fact", category, key, text, MORNING, "Ana")
    return replace(new, source_message_ids=sources, source_session_id="s1", **fields)


async def store(memory: Mnemic, who: Identity, *new: NewMemory, also: Sequence[str] = ()) -> None:
    """Store memories with vectors."""
    resources = memory.resources
    vectors = await embed_to_store(resources, [each.search_text for each in new])
    ids = [each.id for each in new]
    by_id = dict(zip(ids, vectors, strict=True))
    await remember(resources.database, who, *new, also=also, vectors=by_id, model=resources.embedder.name)


async def kept(memory: Mnemic, superuser: psycopg.Connection, who: Identity, text: str, **fields: Any) -> NewMemory:
    """What a person typed, and a fact that says the same."""
    ids = await said(memory, superuser, who, text)
    new = formed(text, *ids, **{"key": f"user:{who.user_id}", "actor_id": who.user_id, **fields})
    await store(memory, who, new)
    return new


async def run(memory: Mnemic, key: str) -> None:
    await propagate(memory.resources, Target("harbor", key))


def shared(superuser: psycopg.Connection, scope: str) -> list[str]:
    """Active memories of all groups, or of the agent."""
    found = superuser.execute(
        "select content from mnemic.memories where scope_key like %s and state = 'active' order by content",
        (f"{scope}:%",),
    )
    return [content for (content,) in found.fetchall()]


async def test_fact_typed_in_a_group_session_is_raised_once_with_its_author(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    source = await kept(memory, superuser, ANA, PLAN)
    await run(memory, "user:ana")
    (plan,) = await memory.memories(BO)

    assert (plan.content, plan.scope_key, plan.author) == (PLAN, "group:crew", "ana")
    lineage = superuser.execute("select from_id, to_id from mnemic.relations where relation_type = 'propagated_from'")
    assert lineage.fetchall() == [(plan.id, source.id)]
    requests = len(model.chat_requests)
    await run(memory, "user:ana")
    assert len(model.chat_requests) == requests
    assert shared(superuser, "group") == [PLAN]


@pytest.mark.parametrize(
    "switch", [{"propagation": False}, {"share_with_group": False}], ids=["propagation", "share_with_group"]
)
async def test_nothing_is_raised_where_a_switch_is_off(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, switch: dict[str, bool]
) -> None:
    await memory.admin.configure_agent(ANA, **switch)
    await kept(memory, superuser, ANA, PLAN)
    await run(memory, "user:ana")
    await memory.admin.configure_agent(ANA, **dict.fromkeys(switch, True))
    await run(memory, "user:ana")
    assert shared(superuser, "group") == []


BERTH = "Berth {} of the north quay costs {} coins a night."
LONG = "-----Original Message-----\n"


async def _private_facts(memory: Mnemic, superuser: psycopg.Connection, each: int) -> int:
    """Facts that are the user's own for ten different reasons, so many of each; return how many there are."""
    number = iter(range(100, 10_000))

    def texts(form: str = BERTH) -> list[str]:
        return [form.format(place := next(number), place) for _ in range(each)]

    stored: list[NewMemory] = []

    async def keep(who: Identity, typed: list[str], told: list[str] | None = None, **fields: Any) -> None:
        turn = fields.pop("turn", {})
        ids = await said(memory, superuser, who, *typed, **turn)
        stored.extend(formed(text, source, **fields) for text, source in zip(told or typed, ids, strict=True))

    def session(name: str, *groups: str, user: str = "ana") -> Identity:
        return identity(user, session=name, groups=groups)

    await keep(ANA, texts(), private=True)
    await keep(ANA, texts(), category="preferences")
    await keep(ANA, texts("Berth {} is let by berth.{}@example.com."))
    await keep(session("alone"), texts())
    await keep(session("two", "crew", "board"), texts())
    late = session("late")
    early = texts()
    await keep(late, early)
    await said(memory, superuser, late.model_copy(update={"group_ids": ("crew",)}), "The crew is here now.")
    await keep(session("guest", "crew", user="bo"), texts(), turn={"user": "ana"})
    await keep(session("helped", "crew"), texts(), turn={"role": "assistant"})
    pasted = texts()
    await keep(session("pasted", "crew"), [LONG + text for text in pasted], pasted)
    more = texts()
    await keep(
        session("more", "crew"), more, [text.replace("a night", "a night, which Ana cannot pay") for text in more]
    )
    await store(memory, ANA, *stored)
    return len(stored)


@pytest.mark.thorough
async def test_private_facts_are_never_raised_by_a_model_that_always_shares(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await _private_facts(memory, superuser, 50) == 500
    await kept(memory, superuser, identity("ana", session="plan", groups=["crew"]), PLAN)
    await run(memory, "user:ana")
    assert shared(superuser, "group") == [PLAN]
    assert shared(superuser, "agent") == []

    # without the rule they leak
    def anything(claim: Claim, *_: Any) -> list[Evidence]:
        return [Evidence(message, message.content, claim.memory.scope_key) for message in claim.messages]

    monkeypatch.setattr(raising, "group_evidence", anything)
    superuser.execute("update mnemic.scopes set propagated_revision = 0")
    await run(memory, "user:ana")
    assert len(shared(superuser, "group")) > 300


async def test_facts_that_are_the_users_own_are_not_raised(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await _private_facts(memory, superuser, 1)
    await run(memory, "user:ana")
    assert shared(superuser, "group") == []
    assert RAISED not in asked(model)  # the model was shown none of them


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("The crew does not sail on Friday.", "The crew sails on Friday."),
        ("Does the crew sail on Friday?", "The crew sails on Friday."),
        ("Bo says that the crew sails at seven.", "The crew sails at seven."),
        ("The crew sails at seven.", "The crew sails at eight."),
        ("The crew sails at seven. Cleo pays the berth.", "The crew sails at seven, and Cleo pays the berth."),
    ],
    ids=["a negation", "a question", "the word of another", "a number", "two sentences"],
)
async def test_a_text_that_no_typed_sentence_says_is_not_raised(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, typed: str, text: str
) -> None:
    ids = await said(memory, superuser, ANA, typed)
    await store(memory, ANA, formed(text, *ids))
    await run(memory, "user:ana")
    assert shared(superuser, "group") == []


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (PropagateOutput(numbers=[]), 0),
        (PropagateOutput(numbers=[7, -2, 0]), 0),
        (PropagateOutput(numbers=[1, 1, 1]), 1),
        ('{"numbers": [1], "texts": ["Ana owes money."]}', 1),
    ],
    ids=["nothing", "unknown numbers", "a number again and again", "words of its own"],
)
async def test_a_model_chooses_among_numbers_and_writes_no_word(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, answer: Any, count: int
) -> None:
    model.answer(RAISED, answer)
    await kept(memory, superuser, ANA, PLAN)
    await run(memory, "user:ana")
    assert shared(superuser, "group") == [PLAN] * count


async def test_unreadable_propagation_answer_changes_nothing_and_is_retried(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(RAISED, "Share them all!")
    await kept(memory, superuser, ANA, PLAN)
    with pytest.raises(ModelOutputError):
        await run(memory, "user:ana")
    assert shared(superuser, "group") == []
    model.answer(RAISED, always_yes)
    await run(memory, "user:ana")
    assert shared(superuser, "group") == [PLAN]


RULE = "Invoices are paid thirty days after delivery."


@dataclass(frozen=True)
class Teller:
    """Who types a text, where, and where it is kept: the user's candidate if no group is named."""

    user: str
    groups: tuple[str, ...] = ()
    key: str = ""
    text: str = RULE
    fields: dict[str, Any] = field(default_factory=dict)


async def told(memory: Mnemic, superuser: psycopg.Connection, teller: Teller) -> NewMemory:
    who = identity(teller.user, session=f"of {teller.user} {teller.groups}", groups=teller.groups)
    key = teller.key or f"user:{teller.user}"
    tags = () if teller.key else (CANDIDATE,)
    return await kept(memory, superuser, who, teller.text, **{"key": key, "tags": tags, **teller.fields})


CREW, BOARD = ("crew",), ("board",)
EVIDENCE = {
    "two groups": (Teller("ana", CREW, "group:crew"), Teller("bo", BOARD, "group:board"), 1),
    "two strangers": (Teller("ana"), Teller("bo"), 1),
    "a group and a stranger": (Teller("ana", CREW, "group:crew"), Teller("bo"), 1),
    "in other words around it": (
        Teller("ana", CREW, "group:crew"),
        Teller("bo", BOARD, "group:board", "Here, too, invoices are paid thirty days after delivery."),
        0,
    ),
    "with another article": (
        Teller("ana", CREW, "group:crew"),
        Teller("bo", BOARD, "group:board", "Our invoices are paid thirty days after the delivery!"),
        0,
    ),
    "with other marks": (
        Teller("ana", CREW, "group:crew"),
        Teller("bo", BOARD, "group:board", "invoices are paid thirty days after delivery!"),
        1,
    ),
    "one person in two groups": (Teller("ana", CREW, "group:crew"), Teller("ana", BOARD, "group:board"), 0),
    "one person twice": (Teller("ana", CREW, "group:crew"), Teller("ana"), 0),
    "two users with a common group": (Teller("ana", CREW), Teller("bo", CREW), 0),
    "another number": (
        Teller("ana", CREW, "group:crew"),
        Teller("bo", BOARD, "group:board", RULE.replace("thirty", "sixty")),
        0,
    ),
    "a negation": (
        Teller("ana", CREW, "group:crew"),
        Teller("bo", BOARD, "group:board", RULE.replace("are", "are not")),
        0,
    ),
    "another word": (
        Teller("ana", CREW, "group:crew"),
        Teller("bo", BOARD, "group:board", RULE.replace("delivery", "complaints")),
        0,
    ),
    "a word that only orders": (
        Teller("ana", CREW, "group:crew"),
        Teller("bo", BOARD, "group:board", RULE.replace("after", "before")),
        0,
    ),
    "in confidence": (Teller("ana"), Teller("bo", fields={"private": True}), 0),
    "of a personal category": (Teller("ana"), Teller("bo", fields={"category": "preferences"}), 0),
    "no candidate": (Teller("ana"), Teller("bo", fields={"tags": ()}), 0),
}


@pytest.mark.parametrize("case", mostly_thorough(EVIDENCE, "two groups", "two strangers", "one person in two groups"))
async def test_facts_typed_by_two_groups_or_two_strangers_alone_reach_everyone(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, case: tuple[Teller, Teller, int]
) -> None:
    first, second, count = case
    keys = [(await told(memory, superuser, teller)).scope_key for teller in (first, second)]
    for key in [*keys, *keys]:
        await run(memory, key)
    assert shared(superuser, "agent") == [RULE] * count


@pytest.mark.thorough
async def test_without_the_rule_one_person_in_two_groups_would_be_evidence(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = EVIDENCE["one person in two groups"]
    monkeypatch.setattr(raising, "independent_pair", lambda own, others, _: own and others and (own[0], others[0]))
    for teller in (first, second):
        await told(memory, superuser, teller)
    await run(memory, "group:board")
    assert shared(superuser, "agent") == [RULE]


async def test_agent_scope_is_shut_by_its_setting(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await memory.admin.configure_agent(ANA, share_with_agent="off")
    for teller in EVIDENCE["two groups"][:2]:
        assert isinstance(teller, Teller)
        await told(memory, superuser, teller)
    await run(memory, "group:board")
    assert shared(superuser, "agent") == []


@pytest.mark.parametrize(("second", "count"), [("ana", 0), ("bo", 1)], ids=["one author", "two authors"])
async def test_merged_memories_count_by_the_authors_of_what_was_merged(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, second: str, count: int
) -> None:
    for user, group in (("ana", "crew"), (second, "board")):
        key = f"group:{group}"
        part = await told(memory, superuser, Teller(user, (group,), key))
        also = await told(memory, superuser, Teller(user, (group,), key, f"{RULE[:-1]}, by bank transfer."))
        parts = tuple(Relation(to_id=old.id, strength=1, relation_type="merged_from") for old in (part, also))
        # the same words may stand once in a scope key, and the actor of the merge typed neither
        merged = formed(f"{RULE} ", key=key, relations=parts, actor_id=f"merger of {group}")
        who = identity(user, session="x", groups=[group])
        await store(memory, who, merged)
        async with memory.resources.database.transaction(who) as tx:
            await tx.begin_operation("formation")
            for old in (part, also):
                found = await memories.find(tx, old.id)
                assert found
                await memories.forget(tx, found)
    for key in ("group:crew", "group:board") * 2:
        await run(memory, key)
    assert shared(superuser, "agent") == [f"{RULE} "] * count


async def _raised(memory: Mnemic, superuser: psycopg.Connection) -> tuple[NewMemory, NewMemory]:
    """A rule of two groups with everybody."""
    own = await told(memory, superuser, Teller("ana", CREW, "group:crew"))
    other = await told(memory, superuser, Teller("bo", BOARD, "group:board"))
    await run(memory, "group:board")
    assert shared(superuser, "agent") == [RULE]
    return own, other


@pytest.mark.parametrize(("user", "groups"), [("ana", CREW), ("bo", BOARD)], ids=["its author", "the other witness"])
@pytest.mark.parametrize("how", ["unshare", "erase_person"])
async def test_who_takes_their_word_back_takes_it_from_everybody(
    memory: Mnemic,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    how: str,
    user: str,
    groups: tuple[str, ...],
) -> None:
    await _raised(memory, superuser)
    await getattr(memory.privacy, how)(identity(user, groups=groups))
    assert shared(superuser, "agent") == []
    assert len(shared(superuser, "group")) == 1


@pytest.mark.parametrize("how", ["private", "erase", "undo"])
async def test_a_copy_goes_with_its_source(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, how: str
) -> None:
    source = await kept(memory, superuser, ANA, PLAN)
    await run(memory, "user:ana")
    assert shared(superuser, "group") == [PLAN]
    if how == "private":
        superuser.execute("set session_replication_role = replica")
        superuser.execute("update mnemic.memories set private = true where id = %s", (source.id,))
        superuser.execute("set session_replication_role = origin")
    elif how == "erase":
        await memory.privacy.erase(ANA, source.id)
        assert shared(superuser, "group") == []
    else:
        (event,) = [event for event in await memory.history.events(ANA, source.id) if event.event == "ADD"]
        await memory.history.undo(ANA, event.op_id)
    await withdraw(memory.resources, Target("harbor", "group:crew"))
    assert shared(superuser, "group") == []


async def test_what_a_copy_had_replaced_is_in_force_once_the_copy_is_withdrawn(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    theirs = await memory.remember(BO, "The crew sails on Friday at six.", category="projects", scope="group")
    source = await kept(memory, superuser, ANA, PLAN)
    await run(memory, "user:ana")
    (copy,) = [row for row in await memory.memories(BO) if row.content == PLAN]
    async with memory.resources.database.transaction(BO) as tx:
        await tx.begin_operation("maintenance")
        assert theirs.id
        await memories.supersede(tx, [Supersession(theirs.id, 1, copy.id, MORNING)])
    assert shared(superuser, "group") == [PLAN]
    await memory.forget(ANA, source.id)
    await withdraw(memory.resources, Target("harbor", "group:crew"))
    assert shared(superuser, "group") == ["The crew sails on Friday at six."]


async def test_propagation_is_one_operation_that_is_undone_and_not_repeated(
    memory: Mnemic, model: LoopbackModel, administration: Administration, superuser: psycopg.Connection
) -> None:
    await kept(memory, superuser, ANA, PLAN)
    await run(memory, "user:ana")
    (done,) = [
        row
        for row in await administration.history.operations(Identity(agent_id="harbor"))
        if row.reason == "propagation"
    ]
    await administration.history.undo(Identity(agent_id="harbor"), done.id)
    await run(memory, "user:ana")
    assert shared(superuser, "group") == []


async def test_a_consolidation_makes_propagation_due_and_one_by_a_job_wakes_it(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    database = memory.resources.database
    await kept(memory, superuser, ANA, PLAN)
    await store(memory, ANA, new_memory("reflection", "style", "user:ana", "Ana wants short answers.", MORNING))
    assert await due_targets(database, "due_propagations", 10, now=datetime.now(UTC)) == []
    assert await due_targets(database, "due_propagations", 10, now=datetime.now(UTC) + timedelta(days=2)) == [USER]

    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    async with open_queue(database) as queue:
        superuser.execute("insert into mnemic.scopes (agent_id, scope_key, threshold) values ('harbor', 'user:ana', 1)")
        await JOBS["consolidate"].run(Work(memory.resources, memory.graphs, queue), USER)
        assert [(job.job, job.scope_key) for job in await queue.jobs()] == [("propagate", "user:ana")]
    assert await due_targets(database, "due_propagations", 10, now=datetime.now(UTC)) == [USER]
    await finish_due_work(memory.resources, memory.graphs)
    assert shared(superuser, "group") == [PLAN]
    assert await due_targets(database, "due_propagations", 10, now=datetime.now(UTC)) == []


async def test_a_worker_takes_a_copy_back_once_its_source_is_forgotten(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    source = await kept(memory, superuser, ANA, PLAN)
    await run(memory, "user:ana")
    await memory.forget(ANA, source.id)
    await finish_due_work(memory.resources, memory.graphs)
    assert shared(superuser, "group") == []
    assert await due_targets(memory.resources.database, "due_withdrawals", 10, now=datetime.now(UTC)) == []
