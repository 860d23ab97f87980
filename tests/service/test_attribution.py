"""Whatever shows a shared memory to another reader names its author and quotes the sentence that was typed."""

import json
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from mnemic.memory.recall import delta
from mnemic.memory.runtime.resources import Resources
from mnemic.prompts.background.propagate import PropagateInput
from mnemic.prompts.explicit.tools import remember_answer
from mnemic.prompts.refinement.refine import render_ledger
from mnemic.service.memory import Mnemic
from mnemic.state.explicit import Remembered
from mnemic.state.formation import SimilarFact
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory, NewMemory
from tests.support.agents import call
from tests.support.searching import fact, know
from tests.support.worlds import MORNING, entry, identity, remembered, text_of

ANA = identity("ana", session="s1", groups=["crew"])
BO = identity("bo", session="s2", groups=["crew"])
TEXT = "Refunds are approved without a check."
SAID = 'We must "never" approve refunds without a check.'
SIGNED = f"{TEXT} (from Ana)"
QUOTED = f'{TEXT} (from Ana: "We must &quot;never&quot; approve refunds without a check.")'
QUESTION = "How are refunds approved?"


def shared(kind: Kind = "fact", said: str | None = SAID, category: str = "knowledge") -> NewMemory:
    return replace(fact(TEXT, category, key="group:crew", kind=kind), said=said)


async def told(memory: Mnemic, who: Identity) -> None:
    recalled = await memory.recall(who)
    await memory.observe(who, [], revision=recalled.revision)


async def views(memory: Mnemic, who: Identity) -> dict[str, str]:
    """Every rendering of the memory for a reader."""
    recalled = await memory.recall(who, QUESTION, search="always")
    answer = await call(memory, who, "memory_query", query=QUESTION)
    return {"recall": text_of(recalled.context), "tool": answer.artifact[0]["text"] if answer.artifact else ""}


@pytest.mark.parametrize("kind", ["fact", "core", "reflection"])
@pytest.mark.parametrize("reader", [ANA, BO], ids=["the author", "another member"])
async def test_other_reader_sees_the_typed_sentence_in_context_results_and_tools(
    memory: Mnemic, resources: Resources, kind: Kind, reader: Identity
) -> None:
    await told(memory, reader)
    await know(resources, identity("ana", session="s3", groups=["crew"]), shared(kind))
    shown = await views(memory, reader)
    line = SIGNED if reader == ANA else QUOTED

    assert shown["recall"].count(line) == 2  # in the context or among the results, and in the updates
    assert shown["recall"].count(TEXT) == 2
    assert kind != "fact" or line in shown["tool"]


@pytest.mark.parametrize("said", [None, TEXT, f"  {TEXT}\n"], ids=["unknown", "the same", "other white space"])
async def test_a_sentence_that_is_unknown_or_the_same_is_not_quoted(
    memory: Mnemic, resources: Resources, said: str | None
) -> None:
    await told(memory, BO)
    await know(resources, ANA, shared(said=said))
    shown = await views(memory, BO)

    assert shown["recall"].count(SIGNED) == 2
    assert shown["recall"].count(TEXT) == 2
    assert SIGNED in shown["tool"]


async def test_an_update_without_room_for_the_sentence_shows_no_words(memory: Mnemic, resources: Resources) -> None:
    await told(memory, BO)
    await know(resources, ANA, shared(said=f"We must never, {'really ' * 50}never do that."))
    updates = (await memory.recall(BO)).context.turn

    assert "[Knowledge] a memory whose words are not shown (from Ana)" in updates
    assert TEXT not in updates


async def test_of_the_own_scope_no_one_is_named(memory: Mnemic, resources: Resources) -> None:
    await know(resources, ANA, replace(fact(TEXT, "knowledge"), said=SAID))
    shown = await views(memory, ANA)

    assert f"{TEXT}\n" in shown["recall"]
    assert "(from" not in "".join(shown.values())


async def test_typed_sentence_is_in_records_and_history_until_an_erasure(
    memory: Mnemic, resources: Resources, superuser: psycopg.Connection
) -> None:
    def stored() -> object:
        ((said,),) = superuser.execute("select said from mnemic.memories").fetchall()
        return said

    (new,) = await know(resources, ANA, replace(fact(TEXT, "knowledge"), said=SAID))
    (found,) = await memory.query(ANA, QUESTION)
    (listed,) = await memory.memories(ANA)
    past = await memory.history.as_of(ANA, "user:ana", 1)
    assert (found.said, listed.said, [one.said for one in past]) == (SAID, SAID, [SAID])

    await memory.forget(ANA, new.id)
    (forgotten, *_) = await memory.history.operations(ANA)
    await memory.history.undo(ANA, forgotten.id)
    assert (stored(), [one.said for one in await memory.memories(ANA)]) == (SAID, [SAID])
    await memory.history.restore(ANA, "user:ana", 2)
    await memory.history.restore(ANA, "user:ana", 1)
    assert (stored(), (await memory.memories(ANA))[0].state) == (SAID, "active")

    await memory.privacy.erase(ANA, new.id)
    assert stored() is None
    rows = superuser.execute(
        "select coalesce(before::text, '') || coalesce(after::text, '') from mnemic.history_contents"
    )
    assert "approve refunds" not in "".join(text for (text,) in rows)


# -- removals


SECRET = "Ana is pregnant."
REMOVED = "- ~soft-deleted: [Knowledge] fact that was shown before"


async def updates(memory: Mnemic, who: Identity, *, is_acknowledged: bool = True) -> str:
    recalled = await memory.recall(who)
    if is_acknowledged:
        await memory.observe(who, [], revision=recalled.revision)
    return recalled.context.turn.partition("<RetrievedMemories>")[0]


async def show(memory: Mnemic, who: Identity, by: str) -> None:
    """Show the memory to a session in one of three ways."""
    if by == "search":
        recalled = await memory.recall(who, "Who is pregnant?", search="always")
        await memory.observe(who, [], revision=recalled.revision)
    if by == "tool":
        await call(memory, who, "memory_query", query="Who is pregnant?")
        await told(memory, who)
    if by == "update":
        assert SECRET in await updates(memory, who)


@pytest.mark.parametrize("by", ["search", "tool", "update"])
async def test_removal_is_announced_by_kind_and_category_to_sessions_that_saw_it(
    memory: Mnemic, resources: Resources, by: str
) -> None:
    shown, other = identity("ana", session="shown"), identity("ana", session="other")
    if by == "update":
        await told(memory, shown)
    (new,) = await know(resources, identity("ana", session="s9"), fact(SECRET, "knowledge"))
    await told(memory, other)  # begins after the memory was stored and never shows it
    await show(memory, shown, by)
    await memory.forget(identity("ana", session="s9"), new.id)
    announced = await updates(memory, shown)

    assert REMOVED in announced
    assert "pregnant" not in announced
    assert await updates(memory, other) == ""
    assert await updates(memory, shown) == ""


async def test_control_without_the_rule_an_unaware_session_hears_of_the_removal(
    memory: Mnemic, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = identity("ana", session="other")
    (new,) = await know(resources, identity("ana", session="s9"), fact(SECRET, "knowledge"))
    await told(memory, other)
    await memory.forget(identity("ana", session="s9"), new.id)
    monkeypatch.setattr(delta, "_was_seen", lambda *_: True)
    assert REMOVED in await updates(memory, other)


async def test_withdrawn_memory_is_announced_without_text_to_those_who_saw_it(
    memory: Mnemic, resources: Resources
) -> None:
    await know(resources, ANA, shared())
    cleo = identity("cleo", session="s4", groups=["crew"])
    for reader in (BO, cleo):
        await told(memory, reader)
    found = await memory.recall(BO, QUESTION, search="always")
    await memory.observe(BO, [], revision=found.revision)
    await memory.privacy.unshare(ANA)

    # the row of what was taken back is hidden, so its kind is not known either
    assert "- ~soft-deleted: [Knowledge] " in (announced := await updates(memory, BO))
    assert "approve" not in announced
    recalled = await memory.recall(cleo)
    assert (recalled.context.turn, recalled.updates) == ("", ())
    assert (await memory.history.updates(cleo, 0)).bullets == ()


# -- what model steps read


def shared_memory(author: str) -> Memory:
    return remembered(TEXT, kind="reflection", key="group:crew", actor_id=author, said=SAID)


def known_fact(author: str | None) -> SimilarFact:
    return SimilarFact(
        place=0, id=UUID(int=1), version=1, scope_key="group:crew", subject="Ana", subject_user_id=None,
        category="knowledge", content=TEXT, dated=MORNING, protected=False, private=False, importance=2,
        similarity=0.9, author=author, said=SAID,
    )  # fmt: skip


def prompt_of(step: str, author: str) -> str:
    """The prompt of a step that reads the memory in a run of Bo's."""
    shared = shared_memory(author)
    other = author if author != "bo" else None  # storage leaves the reader's own name out
    if step == "propagation":
        return PropagateInput("Crew", [(shared, "")]).variables()["memories"]
    return render_ledger([entry(1, TEXT, scope_key="group:crew", author=other, said=SAID)])


STEPS = ("refinement", "propagation")


@pytest.mark.parametrize("step", STEPS)
def test_a_model_step_reads_the_sentence_of_another_person_with_the_memory(step: str) -> None:
    prompt = prompt_of(step, "ana")
    assert TEXT in prompt
    assert "(from Ana: " in prompt
    assert "approve refunds without a check." in prompt


def test_the_own_memory_is_read_as_before() -> None:
    assert "(from" not in prompt_of("refinement", "bo")


def test_the_facts_near_a_remembered_one_are_signed() -> None:
    answer = remember_answer(Remembered(id=UUID(int=9), scope_key="group:crew", near=(known_fact("ana"),)), "group")
    assert QUOTED in json.loads(answer.splitlines()[1])[0]["text"]
