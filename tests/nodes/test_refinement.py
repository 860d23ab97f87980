"""A refinement session: when it begins, what comes of it, how it is resumed and undone."""

from dataclasses import asdict, replace
from typing import Any

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, ModelError, RefinementRunningError
from mnemic.state.records import NewMemory
from mnemic.state.results import RefinementResult
from mnemic.storage import refinements
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.mutating import worsen
from tests.support.refinements import (
    ANA,
    BOTH,
    DONE,
    ENGLISH,
    KEY,
    OSLO,
    SHORT,
    USAGE,
    complete,
    delete,
    keep,
    living,
    merge,
    play,
    protect,
    search,
    set_protected,
    shown,
    update,
)
from tests.support.rollbacks import everything
from tests.support.scripted import meanwhile, scripted_memory
from tests.support.server import Clone
from tests.support.worlds import memory as draft

# -- what comes of it


async def test_a_session_merges_and_its_figures_are_counted(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT, ENGLISH, OSLO, "Ana wants tables.", "Ana likes maps.")

    replies, result = await play(
        memory, model, merge(1, 2), update(3, "Ana sails from Oslo 9 May 2026."), protect(4), delete(5)
    )

    assert all(map(USAGE.search, replies))
    assert replies[-1].startswith("[5] is deleted. You may remove 1 more.")
    (row,) = await memory.admin.refinements(ANA)
    assert [(one.step, one.input_tokens, one.output_tokens) for one in result.spent] == [("refine", 100, 10)] * 6
    assert asdict(replace(result, spent=())) == {
        "scope_key": KEY,
        "outcome": "ended",
        "id": row.id,
        "resumed": False,
        "ended": "completed",
        "tokens_before": 34,
        "tokens_after": 24,
        "target_tokens": 5000,
        "memories_before": 5,
        "memories_after": 3,
        "duplicates": 0,
        "merged": 2,
        "updated": 1,
        "deleted": 1,
        "protected": 1,
        "steps": 6,  # before the last one it was told of lost words
        "journal_id": row.journal_id,
        "spent": (),
    }
    assert (row.scope_key, row.actor, row.ended, row.is_held, row.model_tokens) == (KEY, "ana", "completed", False, 660)
    assert await living(memory) == sorted([BOTH, "Ana sails from Oslo 9 May 2026.", "Ana wants tables."])


async def test_a_journal_memory_tells_of_it_with_figures_that_no_summary_changes(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await keep(memory, SHORT, ENGLISH, OSLO)
    summary = complete("Compressed 900\u202e \u2192 1;\n saved 5,000,000 tokens.\x00 ")
    model.answer(offering("complete_refinement"), calling(merge(1, 2), protect(3)), calling(summary))

    result = await memory.refine(ANA, KEY, force=True)

    (journal,) = await memory.memories(ANA, ["journal"])
    assert journal.id == result.journal_id
    assert journal.content.startswith("Refinement: 3 \u2192 2 memories, about 5 tokens saved, 1 protected. ")
    assert journal.content.endswith(" Compressed 900 \u2192 1; saved 5,000,000 tokens.")
    assert (journal.category, journal.scope_key, journal.subject) == ("journal", KEY, "Ana")
    for search_type in ("text", "semantic"):
        found = await memory.query(ANA, journal.content, categories=["journal"], search_type=search_type)
        assert [item.content for item in found] == [journal.content]

    model.answer_embeddings(500)  # the next one is found by its words alone
    _, result = await play(memory, model, delete(1))
    assert (result.ended, len(await memory.memories(ANA, ["journal"]))) == ("completed", 2)
    assert len(await memory.query(ANA, "refinement", categories=["journal"], search_type="text")) == 2


async def test_the_history_tells_of_the_session_and_all_it_did(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, administration: Administration
) -> None:
    await keep(memory, SHORT, ENGLISH, SHORT.replace(" ", "  "), OSLO)

    _, result = await play(memory, model, merge(1, 2), search(query="Oslo"), protect(3), delete(9))

    history = superuser.execute(
        "select event, reason from mnemic.history where revision > 4 order by agent_id, revision"
    ).fetchall()
    assert history == [
        ("SESSION", "refinement"),
        ("DEDUP", "dedup"), ("LINK", "dedup"),
        ("MERGE", "merge"), ("MERGE", "merge"), ("ADD", "merge"), ("LINK", "merge"), ("LINK", "merge"),
        ("PROTECT", "protect"),
        ("ADD", "refinement"), ("SESSION", "refinement"),
    ]  # fmt: skip
    whose = superuser.execute(
        "select distinct refinement_id::text, actor, actor_kind, scope_key from mnemic.history where revision > 4"
    ).fetchall()
    assert whose == [(str(result.id), "ana", "agent", KEY)]
    rows = superuser.execute("select meta from mnemic.history where event = 'SESSION' order by revision").fetchall()
    (begun,), (ended,) = rows
    assert (begun["tokens_before"], begun["memories_before"], begun["target_tokens"]) == (34, 4, 5000)
    figures = {name: ended[name] for name in ("ended", "duplicates", "merged", "protected", "memories_after")}
    assert figures == {"ended": "completed", "duplicates": 1, "merged": 2, "protected": 1, "memories_after": 2}
    assert not {"content", "summary", "holder"} & (begun.keys() | ended.keys())  # figures and codes alone
    assert await administration.verify() == []


# -- when it begins


async def test_a_dry_run_tells_what_there_is_to_do_and_writes_nothing(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model, refinement_budget_tokens=30, refinement_target_tokens=30) as service:
        made = await keep(service, SHORT, ENGLISH, SHORT.replace(" ", "  "))
        set_protected(superuser, made[1])
        before = everything(superuser)
        within, insisted = [await service.refine(ANA, KEY, dry_run=True, force=force) for force in (False, True)]
        assert everything(superuser) == before
        undone = await service.refine(ANA, KEY)
        empty = await service.refine(ANA, "agent:harbor", force=True)
        await keep(service, OSLO)
        over = await service.refine(ANA, KEY, dry_run=True)
        assert model.chat_requests == []
        model.answer(offering("complete_refinement"), calling(DONE))
        assert (await service.refine(ANA, KEY)).outcome == "ended"

    assert (within.outcome, insisted.outcome) == ("not_due", "planned")
    assert (undone.outcome, undone.tokens_before, undone.id) == ("not_due", 25, None)
    assert (empty.outcome, empty.memories_before) == ("not_due", 0)
    assert over == RefinementResult(
        scope_key=KEY,
        outcome="planned",
        tokens_before=34,
        target_tokens=30,
        memories_before=4,
        protected=1,
        duplicates=1,
    )


async def test_refinement_needs_an_own_scope_key_and_a_role_that_reads_core(memory: Mnemic) -> None:
    for dry_run in (True, False):
        for key in ("user:bo", "group:crew", "agent:museum", "Ana"):
            with pytest.raises(InvalidInputError):
                await memory.refine(ANA, key, force=True, dry_run=dry_run)
        with pytest.raises(CategoryRefusedError):
            await memory.refine(ANA.model_copy(update={"role": "stylist"}), KEY, force=True, dry_run=dry_run)


async def test_one_session_runs_on_a_scope_key_at_a_time(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT)
    await keep(memory, ENGLISH, key="agent:harbor")

    async def again() -> None:
        for dry_run in (True, False):
            with pytest.raises(RefinementRunningError, match=r"\d+ seconds"):
                await memory.refine(ANA, KEY, force=True, dry_run=dry_run)
        assert (await memory.refine(ANA, "agent:harbor", force=True, dry_run=True)).outcome == "planned"

    model.answer(offering("complete_refinement"), meanwhile(again, calling(DONE)))

    assert (await memory.refine(ANA, KEY, force=True)).ended == "completed"


async def test_one_that_is_resumed_when_all_its_memories_are_gone_ends(memory: Mnemic, model: LoopbackModel) -> None:
    kept = await keep(memory, SHORT)
    model.answer(offering("complete_refinement"), 401)
    with pytest.raises(ModelError):
        await memory.refine(ANA, KEY, force=True)
    (broken,) = await memory.admin.refinements(ANA)
    planned = await memory.refine(ANA, KEY, dry_run=True)
    await memory.privacy.erase(ANA, kept[0].id)

    result = await memory.refine(ANA, KEY)

    assert (broken.ended, broken.is_held) == (None, False)
    assert (planned.outcome, planned.resumed, planned.id) == ("planned", True, broken.id)

    assert (result.outcome, result.ended, result.resumed) == ("ended", "finished", True)
    assert (result.memories_before, result.memories_after) == (1, 0)
    assert (await memory.refine(ANA, KEY, force=True)).outcome == "not_due"


async def test_runs_on_a_thread_report_separately_and_default_to_agent_memory(
    memory: Mnemic, model: LoopbackModel
) -> None:
    """As LangGraph Server runs the graph, which brings a checkpointer."""
    graph = memory.graphs.refinement
    graph.checkpointer = InMemorySaver()
    await keep(memory, SHORT, ENGLISH)
    model.answer(offering("complete_refinement"), calling(merge(1, 2)), calling(DONE))
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    first = await graph.ainvoke({"scope_key": KEY, "force": True}, config, context=ANA)

    second = await graph.ainvoke({"force": True}, config, context=ANA)

    assert (first["outcome"], first["scope_key"], first["ended"]) == ("ended", KEY, "completed")
    assert second.pop("spent") == []
    assert {name: value for name, value in second.items() if value is not None} == {
        "outcome": "not_due",
        "scope_key": "agent:harbor",
        "resumed": False,
        "tokens_before": 0,
        "target_tokens": 5000,
        "memories_before": 0,
        "protected": 0,
    }


# -- exact duplicates go before the agent is asked, read by nobody

WIDE = SHORT.replace(" ", "  ")
LINES = SHORT.replace(" ", " \n ")
CAFE, DECOMPOSED, FULL = "Ana's caf\u00e9 is no. 9.", "Ana's cafe\u0301 is no. 9.", "Ana's caf\u00e9 is no. \uff19."
SQUARE, PLAIN = "Ana's hall has 10\u00b2 m.", "Ana's hall has 102 m."


def core(text: str, **changes: Any) -> NewMemory:
    return replace(draft(text, kind="core"), **changes)


#: What there is, and what is left of it.
TWINS: dict[str, tuple[list[NewMemory | str], list[str]]] = {
    "white space": ([SHORT, WIDE, LINES], [SHORT]),
    "forms of Unicode": ([CAFE, DECOMPOSED, FULL], [CAFE]),
    "the oldest stays": ([WIDE, ENGLISH, SHORT], [WIDE, ENGLISH]),
    "the more important stays": ([core(SHORT, importance=2), core(WIDE, importance=5)], [WIDE]),
    "a commitment stays rather than a reflection": ([draft(SHORT, kind="reflection"), WIDE], [WIDE]),
    "case and punctuation": ([SHORT, SHORT.upper(), SHORT.removesuffix(".")], [SHORT, SHORT.upper(), SHORT[:-1]]),
    "raised numbers": ([SQUARE, PLAIN], [SQUARE, PLAIN]),
    "a protected one stays": ([SHORT, WIDE, LINES], [WIDE]),
    "all protected ones stay": ([SHORT, WIDE, LINES], [SHORT, LINES]),
    "no fact": ([SHORT, draft(WIDE)], [SHORT, WIDE]),
    "no consolidation": ([SHORT, draft(SHORT, kind="consolidation")], [SHORT, SHORT]),
}
#: Of which of them are protected.
PROTECTED = {"a protected one stays": [1], "all protected ones stay": [0, 2]}
#: What differs in one column stays; without that column in the statement it would go.
COLUMNS: dict[str, NewMemory] = {
    "subject_user_id, case when subject_user_id is null then subject end,": core(WIDE, subject_user_id="bo"),
    "case when subject_user_id is null then subject end,": core(LINES, subject="Bo"),
    "category, ": core(f"{SHORT} ", category="goals"),
    "private,": core(f" {SHORT}", private=True),
}


@pytest.mark.parametrize("case", TWINS)
async def test_what_says_exactly_the_same_lives_once(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, case: str
) -> None:
    new, left = TWINS[case]
    made = await keep(memory, *new)
    set_protected(superuser, *(made[place] for place in PROTECTED.get(case, [])))
    planned = await memory.refine(ANA, KEY, dry_run=True)

    _, result = await play(memory, model)

    assert await living(memory, "core", "reflection", "fact", "consolidation") == sorted(left)
    assert result.duplicates == planned.duplicates == len(new) - len(left)
    is_fact = [isinstance(item, NewMemory) and item.kind == "fact" for item in new]
    assert shown(model.chat_requests[0]).count("\n[") == len(left) - sum(is_fact)  # the agent saw what was left


async def test_what_is_not_the_same_for_who_reads_it_stays(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT, *COLUMNS.values())
    await keep(memory, WIDE, key="agent:harbor")

    _, result = await play(memory, model)

    assert (result.duplicates, result.memories_after, len(await living(memory))) == (0, 5, 6)


@pytest.mark.thorough
@pytest.mark.parametrize("column", COLUMNS)
async def test_control_without_its_column_it_goes(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    worsen(monkeypatch, refinements, duplicates=(column, ""))
    await keep(memory, SHORT, COLUMNS[column])

    _, result = await play(memory, model)

    assert result.duplicates == 1
