"""A refinement beside all others that write: what they changed while the model thought is not overwritten."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mnemic.operations.refinement.session import CoreMemoryEditor
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.records import Memory
from mnemic.storage import memories, refinements
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.chaos import worsen
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
