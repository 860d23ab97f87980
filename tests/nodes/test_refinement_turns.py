"""The turns of a refinement: what the agent is shown, batch by batch, and where its session ends at the latest."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mnemic.operations.refinement import session as open_refinement
from mnemic.operations.refinement.session import CoreMemoryEditor
from mnemic.policy.refinement import batches
from mnemic.service.memory import Mnemic
from mnemic.state.refinement import LedgerEntry
from tests.support.loopback import LoopbackModel, Reply, calling, offering
from tests.support.played_refinements import (
    ANA,
    DONE,
    KEY,
    SHORT,
    answers,
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
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import identity
from tests.support.worlds import memory as draft

# -- what the agent is shown


async def test_the_agent_is_shown_who_it_is_how_much_there_is_and_every_memory(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model) as service:
        who = identity("ana", agent="harbor")
        made = await keep(
            service,
            replace(draft(SHORT, kind="core"), importance=4),
            replace(draft("Ana wants\nno <ledger>s & fences.", kind="reflection"), private=True),
        )
        set_protected(superuser, made[0])
        own = {"agent_model": "openai:own-voice", "refinement_target_tokens": 77}
        await service.configure_agent(who, persona="I am <Harbor>, a patient pilot.", **own)
        _, result = await play(service, model)

    (request,) = model.chat_requests
    prompt = shown(request)
    assert request["model"] == "own-voice"
    assert "<persona>\nI am &lt;Harbor&gt;, a patient pilot.\n</persona>" in prompt
    assert "core memory of the scope user, kept for:\n<owner>\nAna\n</owner>" in prompt
    assert "16 tokens now, target 77. Protected: 8 tokens, at most 19. You may remove at most 1 memories" in prompt
    ledger = prompt[prompt.index("<ledger>") : prompt.index("</ledger>")].splitlines()[1:]
    assert [line.partition(", stored ")[0] for line in ledger[:2]] == [
        "[1] core, profile, since 2026-03-02",
        "[2] reflection, profile, since 2026-03-03",
    ]
    assert ledger[0].endswith(f"importance 4, 8 tokens, about Ana, protected: {SHORT}")
    assert ledger[1].endswith("importance 2, 8 tokens, about Ana, private: Ana wants")
    assert ledger[2:] == ["    | no &lt;ledger&gt;s &amp; fences."]
    # never an id
    assert str(made[0].id) not in str(model.chat_requests)
    assert result["target_tokens"] == 77


async def test_another_agent_has_its_own_model_and_persona(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, agent_model="openai:common", persona="One of many.") as service:
        museum = identity("ana", agent="museum")
        await keep(service, SHORT)
        await keep(service, SHORT, who=museum)
        await service.configure_agent(museum, agent_model="openai:museum", persona="The museum.")
        asked = []
        for who in (ANA, museum):
            await play(service, model, who=who)
            (request,) = model.chat_requests
            asked.append((request["model"], "The museum." in shown(request), "One of many." in shown(request)))

    assert asked == [("common", False, True), ("museum", True, False)]


async def test_a_long_memory_is_shown_batch_by_batch(clean_db: Clone, model: LoopbackModel) -> None:
    texts = [f"Ana keeps boat number {place} at the quay of Porto." for place in range(12)]
    async with scripted_memory(clean_db, model, refinement_batch_tokens=40) as service:
        await keep(service, *texts)
        silent = calling(text="Done with these.")
        model.answer(offering("complete_refinement"), calling(delete(1)), silent)
        result = await service.refine(ANA, KEY, force=True)

    prompts = [shown(request) for request in model.chat_requests]
    numbers = [prompt.partition("\nBatch ")[2].partition(".")[0] for prompt in prompts]
    assert numbers == ["1 of 4", *[f"{place} of 4" for place in range(1, 5)]]
    ledgers = [prompt[prompt.index("<ledger>") :].count("\n[") for prompt in prompts]
    assert ledgers == [3, 3, 3, 3, 3]
    held = [text for text in texts if any(text in prompt for prompt in prompts)]
    assert held == texts
    # what was done before is told within its batch alone; each batch begins with the figures of then
    assert [len(answers(request)) for request in model.chat_requests] == [0, 1, 0, 0, 0]
    assert ["132 tokens now" in prompt for prompt in prompts] == [False, False, True, True, True]
    assert (result["ended"], result["steps"], result["deleted"]) == ("finished", 5, 1)


# -- limits

LIMITS: dict[str, tuple[dict[str, Any], int]] = {
    "steps": ({"refinement_steps": 4}, 4),
    "tokens": ({"refinement_model_tokens": 2500}, 3),
    "time": ({}, 1),
}


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_session_ends_at_its_limits_and_its_journal_says_so(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, limit: str
) -> None:
    settings, turns = LIMITS[limit]

    def again(_: Any) -> Reply:
        if limit == "time":
            superuser.execute("update mnemic.refinements set started_at = started_at - interval '61 minutes'")
        return Reply(message=calling(search(query="answers")), usage=(900, 100))

    async with scripted_memory(clean_db, model, **settings) as service:
        await keep(service, SHORT, SHORT.replace(" ", "  "))
        model.answer(offering("complete_refinement"), again)
        result = await service.refine(ANA, KEY, force=True)
        (journal,) = await service.memories(ANA, ["journal"])
        (row,) = await service.refinements(ANA)

    assert (result["ended"], len(model.chat_requests), row.model_tokens) == (limit, turns, 1000 * turns)
    assert "limit of" in journal.content
    assert journal.content.startswith("Refinement: 2 \u2192 1 memories, about 9 tokens saved. ")


async def test_a_turn_without_a_call_ends_a_session_of_one_batch(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT)

    _, result = await play(memory, model, ends=False)

    assert result["ended"] == "finished"


# -- what may be named


THINGS = [f"Ana keeps the thing number {place} of hers somewhere." for place in range(1, 9)]


async def named_blindly(clean_db: Clone, model: LoopbackModel) -> list[list[str]]:
    """What a model is answered that names memories of other batches, and then what a search shows it."""
    blind = [delete(8), merge(6, 7, into="Ana keeps things 6, 7 of hers somewhere."), protect(5), update(2, "x")]
    seen = [search(query="thing", after="2026-03-09"), delete(2)]
    async with scripted_memory(clean_db, model, refinement_batch_tokens=12) as service:
        await keep(service, *THINGS)
        model.answer(offering("complete_refinement"), calling(*blind), calling(*seen), calling(DONE))
        await service.refine(ANA, KEY, force=True)
        assert "[1] core" in shown(model.chat_requests[0])
        return [answers(model.chat_requests[1]), answers(model.chat_requests[2])[4:], await living(service)]


async def test_only_what_was_shown_may_be_named(clean_db: Clone, model: LoopbackModel) -> None:
    blind, (found, gone), left = await named_blindly(clean_db, model)

    assert [answer.partition(" [")[0] for answer in blind] == ["Refused: there is no memory"] * 4
    assert [line[:3] for line in found.splitlines()[1:-1]] == ["[2]"]
    assert gone.startswith("[2] is deleted.")
    assert left == THINGS[:7]


@pytest.mark.thorough
async def test_control_where_all_is_numbered_at_once_what_was_not_shown_is_changed(
    clean_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = CoreMemoryEditor._living

    def numbering(self: CoreMemoryEditor, number: int) -> LedgerEntry | None:
        self.session.handles.number(self.entries.values())
        return living(self, number)

    monkeypatch.setattr(CoreMemoryEditor, "_living", numbering)

    blind, *_ = await named_blindly(clean_db, model)

    assert [answer.startswith("Refused") for answer in blind[:3]] == [False] * 3


async def test_numbers_stay_the_same_from_batch_to_batch(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, refinement_batch_tokens=8) as service:
        await keep(service, SHORT, "Boats are kept at Porto quay.", "Carl is a diabetic person.")
        silent, look = calling(text="Done."), calling(search(query=""))
        model.answer(offering("complete_refinement"), silent, look, silent)
        await service.refine(ANA, KEY, force=True)

    ledgers = [shown(request).partition("<ledger>\n")[2][:3] for request in model.chat_requests]
    assert ledgers == ["[1]", "[2]", "[2]", "[3]"]
    (told,) = answers(model.chat_requests[2])
    assert [line[:3] for line in told.splitlines()[1:-1]] == ["[1]", "[2]", "[3]"]


@pytest.mark.parametrize("blocks", [False, True], ids=["", "control: on the event loop"])
async def test_while_a_long_memory_is_cut_into_batches_others_go_on(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, blocks: bool
) -> None:
    await keep(memory, SHORT)
    loop, went_on = asyncio.get_running_loop(), threading.Event()
    found: list[bool] = []

    def waiting(entries: Any, *, tokens: int) -> Any:
        """Needs somebody else on the event loop to go on meanwhile."""
        loop.call_soon_threadsafe(went_on.set)
        found.append(went_on.wait(timeout=0.1 if blocks else 20))
        return batches(entries, tokens=tokens)

    async def here(act: Any, *given: Any, **named: Any) -> Any:
        return act(*given, **named)

    monkeypatch.setattr(open_refinement, "batches", waiting)
    if blocks:
        monkeypatch.setattr(asyncio, "to_thread", here)
    await play(memory, model)

    assert found == [not blocks]
