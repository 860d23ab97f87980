"""A refinement beside all others that write: what they changed is not overwritten, and nothing is lost or doubled."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from mnemic.operations.refinement.session import CoreMemoryEditor
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.records import Memory, ScopeSettings
from mnemic.storage import memories, refinements
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.chaos import worsen
from tests.faults.checker import what_is_wrong
from tests.faults.jobs import Job, crates_in, job
from tests.faults.refining import ANA, KEY, audit_problems, shown
from tests.faults.traps import REFINE, TrappedModel
from tests.support.loopback import Answer, Request, calling, offering
from tests.support.played_refinements import answers
from tests.support.scripted import scripted_resources
from tests.support.server import Clone
from tests.support.worlds import AGENT, memory, operate, remember

#: Changes something while the model thinks.
Meanwhile = Callable[[Mnemic, Clone], Coroutine[Any, Any, None]]
COMPLETE: tuple[str, dict[str, Any]] = ("complete_refinement", {"summary": "Nothing more."})


# -- changed meanwhile


async def only(mnemic: Mnemic, kind: Any) -> Memory:
    (found,) = await mnemic.memories(ANA, [kind])
    return found


async def absorb(mnemic: Mnemic, _: Clone) -> None:
    """A consolidation takes the reflection in."""
    wish, text = await only(mnemic, "reflection"), await only(mnemic, "consolidation")
    await operate(mnemic.resources.database, ANA, lambda scoped: memories.absorb(scoped, text.id, [wish.id]))


async def rewrite(mnemic: Mnemic, _: Clone) -> None:
    """A consolidation is written anew."""
    text = await only(mnemic, "consolidation")

    async def act(scoped: ScopedTransaction) -> None:
        await memories.rewrite_consolidation(scoped, text, "Ana wants the newest words of all of them.")

    await operate(mnemic.resources.database, ANA, act)


async def undo(mnemic: Mnemic, _: Clone) -> None:
    """A person takes a confidence back."""
    made = await mnemic.history(ANA, (await only(mnemic, "core")).id)
    await mnemic.undo(ANA, made[-1].op_id)


async def protect(mnemic: Mnemic, clone: Clone) -> None:
    """An administrator protects the core memory."""
    core = await only(mnemic, "core")
    async with Administration.open(admin_url=clone.administrator_dsn) as administration:
        await administration.protect(AGENT, core.id)


#: What happens, which memory is updated, and what the refusal says.
CHANGES: dict[str, tuple[Meanwhile, str, str]] = {
    "absorbed": (absorb, "reflection", "there is no memory [{}]"),
    "rewritten": (rewrite, "consolidation", "[{}] was changed by somebody else meanwhile"),
    "undone": (undo, "core", "[{}] was changed by somebody else meanwhile"),
    "protected": (protect, "core", "[{}] is protected"),
}


async def update_meanwhile(clone: Clone, model: TrappedModel, change: str) -> tuple[list[str], list[str], list[str]]:
    """What an update is answered when its memory changed while the model thought, and the texts before and after that.

    Returns:
        The answers to it and to a look afterwards; what the memories say once it changed; and at the end.
    """
    meanwhile, kind, _ = CHANGES[change]
    told: list[str] = []
    loop = asyncio.get_running_loop()
    async with scripted_resources(clone, model) as resources:
        mnemic = Mnemic(resources)
        core = memory("Ana wants answers that are short, and never long ones.", kind="core")
        wish = memory("Ana wants tables in all answers, as often as she can have them.", kind="reflection")
        text = memory("Ana wants the old words of all of them, again and again.", kind="consolidation")
        await remember(resources.database, ANA, core, wish, text)
        await operate(resources.database, ANA, lambda scoped: memories.make_private(scoped, core.id))

        def answer(request: Request) -> Answer:
            if said := answers(request):
                told[:] = said
                return calling(COMPLETE if len(said) > 1 else ("search_memories", {"query": "wants"}))
            (number,) = [number for number, marks, _ in shown(request) if marks.startswith(kind)]
            asyncio.run_coroutine_threadsafe(meanwhile(mnemic, clone), loop).result(timeout=20)
            texts.extend(_texts(clone))
            new = "Ana wants answers in a model's own words."
            return calling(("update_memory", {"id": number, "content": new}))

        texts: list[str] = []
        model.answer(offering(REFINE), answer)
        await mnemic.refine(ANA, KEY, force=True)
    return told, texts, _texts(clone)


def _texts(clone: Clone) -> list[str]:
    with clone.as_superuser() as superuser:
        rows = superuser.execute("select content from mnemic.memories where kind <> 'journal' order by id").fetchall()
    return [text for (text,) in rows]


@pytest.mark.parametrize("change", CHANGES)
async def test_what_changed_while_the_model_thought_is_refused_and_stays(
    clean_db: Clone, model: TrappedModel, change: str
) -> None:
    told, then, now = await update_meanwhile(clean_db, model, change)

    assert re.match(re.escape("Refused: " + CHANGES[change][2]).replace(r"\{\}", r"\d"), told[0]), told
    assert "model" not in " ".join(now)
    assert now == then
    if change == "rewritten":
        assert "Ana wants the newest words of all of them." in told[1]
    assert audit_problems(clean_db) == []


@pytest.mark.thorough
async def test_control_an_update_that_looks_at_no_version_overwrites_it(
    clean_db: Clone, model: TrappedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, refinements, rewrite=("version = %(version)s", "version >= %(version)s"))
    monkeypatch.setattr(CoreMemoryEditor, "_require_unchanged", lambda self, entry: None)
    told, then, now = await update_meanwhile(clean_db, model, "rewritten")

    assert "is changed" in told[0]
    assert now != then
    assert "model" in " ".join(now)


# -- writers beside a session

JOBS = [job(number) for number in range(1, 13)]
_TOLD = re.compile(r"^Ana cares about ")


def script_merges(model: TrappedModel) -> None:
    """Merges every two reflections, in words of its own, and completes."""
    made = iter("abcdefghijklmnopqrstuvwxyz" * 20)

    def turn(request: Request) -> Answer:
        if answers(request):
            return calling(COMPLETE)
        free = [(number, text) for number, marks, text in shown(request) if marks.startswith("reflection")]
        pairs = list(zip(free[::2], free[1::2], strict=False))
        calls: list[tuple[str, dict[str, Any]]] = []
        for (one, first), (other, second) in pairs:
            crates = ", ".join(map(str, sorted(crates_in(first) | crates_in(second))))
            text = f"Ana cares about crates {crates} ({next(made)}ing)."
            calls.append(("consolidate_memories", {"ids_to_merge": [one, other], "new_content": text}))
        return calling(*(calls or [COMPLETE]))

    model.answer(offering(REFINE), turn)


async def storm(clone: Clone, model: TrappedModel) -> None:
    """Sessions are formed and consolidated, and recalled, while one refinement comes after the other."""
    script_merges(model)
    async with scripted_resources(clone, model, pool_size=8) as resources:
        mnemic = Mnemic(resources)
        await mnemic.configure_scope(ANA, ScopeSettings(scope_key=KEY, threshold=4))
        forming = True

        async def tell(jobs: list[Job]) -> None:
            for told in jobs:
                await mnemic.observe(told.who, told.messages)
                await mnemic.form(told.who)
                await mnemic.recall(told.who, "What does Ana care about?", search="always")

        async def refine() -> None:
            while forming:
                await mnemic.refine(ANA, KEY, force=True)
                await asyncio.sleep(0.01)

        async def consolidate() -> None:
            while forming:
                with suppress(ConcurrentChangeError):  # it comes again
                    await mnemic.consolidate(ANA, KEY, force=True)
                await asyncio.sleep(0.05)

        await tell(JOBS[:2])
        await mnemic.refine(ANA, KEY, force=True)  # one merge at least, and one consolidation in the end
        others = [asyncio.create_task(refine()), asyncio.create_task(consolidate())]
        await asyncio.gather(tell(JOBS[2:-1:2]), tell(JOBS[3:-1:2]))
        forming = False
        await asyncio.gather(*others)
        await tell(JOBS[-1:])
        await mnemic.consolidate(ANA, KEY, force=True)


def lost_or_doubled(clone: Clone) -> dict[str, Any]:
    """What is not there exactly once: a crate of each telling, in a living memory or in the consolidation."""
    with clone.as_superuser() as superuser:
        wrong: dict[str, Any] = {**what_is_wrong(superuser, JOBS)}
        rows = superuser.execute(
            "select content from mnemic.memories"
            " where state = 'active' and kind in ('core', 'reflection', 'consolidation')"
        ).fetchall()
        merges = superuser.execute(
            "select memory_id from mnemic.history where event = 'MERGE' group by memory_id having count(*) > 1"
        ).fetchall()
    held = Counter(crate for (text,) in rows for crate in crates_in(text))
    wrong |= {"crates": held} if held != Counter(told.number for told in JOBS) else {}
    wrong |= {"merged twice": merges} if merges else {}
    wrong |= {"audit": found} if (found := audit_problems(clone)) else {}
    return wrong


@pytest.mark.thorough
async def test_beside_formations_and_consolidations_nothing_is_lost_or_doubled(
    clean_db: Clone, model: TrappedModel, superuser: psycopg.Connection
) -> None:
    await storm(clean_db, model)

    assert lost_or_doubled(clean_db) == {}
    done = superuser.execute("select distinct event from mnemic.history").fetchall()
    assert {event for (event,) in done} >= {"ADD", "ABSORB", "MERGE", "SESSION"}


@pytest.mark.thorough
async def test_control_a_merge_of_what_was_taken_in_meanwhile_doubles_it(
    clean_db: Clone, model: TrappedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge that leaves open what it merged."""
    open_still = "select m.id from memories m where m.agent_id = %(agent_id)s and m.id = any(%(ids)s)"
    keeping = {"close_merged": open_still + " and cardinality(%(versions)s::integer[]) > 0"}
    monkeypatch.setattr(refinements, "_SQL", {**refinements._SQL, **keeping})
    await storm(clean_db, model)

    assert "crates" in lost_or_doubled(clean_db)
