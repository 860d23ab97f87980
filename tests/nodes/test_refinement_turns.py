"""The turns of a refinement: what its agent is shown, where it ends, and what it may lose and protect at most."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from mnemic.memory.refinement import editor as editor_module
from mnemic.memory.refinement.editor import ContextMemoryEditor
from mnemic.memory.refinement.losses import lost_memories
from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.refinement import LedgerEntry
from mnemic.storage import refinements
from tests.support import erasing
from tests.support.loopback import LoopbackModel, Reply, calling, offering
from tests.support.refinements import (
    ANA,
    BOTH,
    DONE,
    ENGLISH,
    KEY,
    OSLO,
    SHORT,
    Call,
    answers,
    delete,
    drafts,
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
from tests.support.worlds import MORNING, identity, message, operate
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
        await service.admin.configure_agent(who, persona="I am <Harbor>, a patient pilot.", **own)
        _, result = await play(service, model)

    (request,) = model.chat_requests
    prompt = shown(request)
    assert request["model"] == "own-voice"
    assert "<persona>\nI am &lt;Harbor&gt;, a patient pilot.\n</persona>" in prompt
    assert "core memory of the scope user, kept for:\n<owner>\nAna\n</owner>" in prompt
    assert f"Today is {datetime.now(UTC):%a %Y-%m-%d}." in prompt
    assert "16 tokens now, target 77. Protected: 8 tokens, at most 19. You may remove at most 1 memories" in prompt
    assert "[1] core, profile, since Mon 2026-03-02, importance" in prompt
    assert f"importance 4, 8 tokens, about Ana, protected: {SHORT}\n" in prompt
    assert "about Ana, private: Ana wants\n    | no &lt;ledger&gt;s &amp; fences.\n" in prompt
    # never an id
    assert str(made[0].id) not in str(model.chat_requests)
    assert result.target_tokens == 77


async def test_a_long_memory_is_shown_batch_by_batch(clean_db: Clone, model: LoopbackModel) -> None:
    texts = [f"Ana keeps boat number {place} at the quay of Porto." for place in range(12)]
    async with scripted_memory(clean_db, model, refinement_batch_tokens=40) as service:
        await keep(service, *texts)
        silent = calling(text="Done with these.")
        model.answer(offering("complete_refinement"), calling(delete(1)), silent)
        result = await service.refine(ANA, KEY, force=True)

    prompts = [shown(request) for request in model.chat_requests]
    numbers = [prompt.rpartition(" Batch ")[2].partition(".")[0] for prompt in prompts]
    assert numbers == ["1 of 4", *[f"{place} of 4" for place in range(1, 5)]]
    ledgers = [prompt[prompt.index("<ledger>") :].count("\n[") for prompt in prompts]
    assert ledgers == [3, 3, 3, 3, 3]
    held = [text for text in texts if any(text in prompt for prompt in prompts)]
    assert held == texts
    # what was done before is told within its batch alone; each batch begins with the figures of then
    assert [len(answers(request)) for request in model.chat_requests] == [0, 1, 0, 0, 0]
    assert ["132 tokens now" in prompt for prompt in prompts] == [False, False, True, True, True]
    assert (result.ended, result.steps, result.deleted) == ("finished", 5, 1)


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
        (row,) = await service.admin.refinements(ANA)

    assert (result.ended, len(model.chat_requests), row.model_tokens) == (limit, turns, 1000 * turns)
    assert "limit of" in journal.content
    assert journal.content.startswith("Refinement: 2 \u2192 1 memories, about 9 tokens saved. ")


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
async def test_control_numbering_all_at_once_lets_an_unseen_memory_change(
    clean_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_editable = ContextMemoryEditor.require_editable

    def numbering(self: ContextMemoryEditor, *numbers: int, **rest: bool) -> list[LedgerEntry]:
        self.session.show(self.entries.values())
        return require_editable(self, *numbers, **rest)

    monkeypatch.setattr(ContextMemoryEditor, "require_editable", numbering)

    blind, *_ = await named_blindly(clean_db, model)

    assert [answer.startswith("Refused") for answer in blind[:3]] == [False] * 3


# -- what a session may lose and protect at most, in however many steps

LONG = "Ana mends sails, paints boats, repairs engines, sells anchors, teaches knots and rents canoes near Bergen."
LAW = "Ana must never be called before nine."
#: What a session must not lose unnoticed, each in a few words of its own.
BRIEF = [f"Ana {words}." for words in ("is allergic to peanuts", "must take insulin", "promised to call her mother",
                                       "plays chess", "likes jazz", "grows tomatoes", "fears dogs")]  # fmt: skip
#: Each keeps a third of the words of the one before it, and the second none of the first.
STEPS = (
    "Ana mends sails, boats, anchors, knots, says Olaf Svensson of the Viken yard.",
    "Olaf Svensson has the Viken yard.",
)


#: What there is, of which a quarter may go, rounded up; the calls, each with whether it is refused and the memories
#: that its answer says it loses; and how many the session has lost in the end.
CASES: dict[str, tuple[list[str], list[tuple[Call, bool, str]], int]] = {
    "deletions": (
        [SHORT, ENGLISH, OSLO, LAW, LONG],
        [(delete(1), False, ""), (delete(2), False, ""), (delete(3), True, "[3]"), (update(3, "Fine."), True, "[3]")],
        2,
    ),
    "a merge that keeps hardly a word": (
        [SHORT, ENGLISH, OSLO, LAW, LONG],
        [
            (merge(1, 2, 3, 4, into="Be kind."), True, "[1], [2], [3], [4]"),
            (merge(1, 2, into="Be kind."), False, "[1], [2]"),
            (delete(3), True, "[3]"),
        ],
        2,
    ),
    "a merge that forgets one": ([SHORT, ENGLISH, BRIEF[0], OSLO], [(merge(1, 2, 3), False, "[3]")], 1),
    "a merge into the text of one": (
        [LONG, *BRIEF],
        [(merge(*range(1, 9), into=LONG), True, "[2], [3], [4], [5], [6], [7], [8]")],
        0,
    ),
    "what went into a merge is what its text is measured by": (
        [LONG, SHORT, ENGLISH, OSLO, LAW],
        [
            (merge(1, 2, into=f"{LONG} {SHORT}"), False, ""),
            (update(6, "Ana sells anchors near Bergen."), False, "[6]"),
            (update(6, "Ana."), False, ""),  # what has gone does not go again
            (delete(3), True, "[3]"),
        ],
        2,
    ),
    "what a merge put together goes one by one": (
        [LONG, *BRIEF],
        [
            (merge(1, 2, 3, 4, into=" ".join([LONG, *BRIEF[:3]])), False, ""),
            (delete(9), True, "[9]"),
            (update(9, LONG), True, "[9]"),
            (update(9, f"{LONG} {BRIEF[0]} {BRIEF[1]}"), False, "[9]"),
            (update(9, f"{LONG} {BRIEF[0]}"), False, "[9]"),
            (update(9, LONG), True, "[9]"),
            (merge(9, 5, into=f"{LONG} {BRIEF[3]}"), True, "[9]"),
        ],
        2,
    ),
    "many small steps": ([LONG, SHORT], [(update(1, STEPS[0]), False, ""), (update(1, STEPS[1]), False, "[1]")], 1),
}


async def violations(memory: Mnemic, model: LoopbackModel, case: str) -> list[str]:
    """Where a session does not keep to its bounds."""
    texts, steps, count = CASES[case]
    await keep(memory, *texts)
    replies, _ = await play(memory, model, *(call for call, _, _ in steps))
    wrong = []
    for (call, is_refused, named), answer in zip(steps, replies, strict=True):
        if answer.startswith("Refused: ") != is_refused:
            wrong.append(f"{call}: {answer}")
        elif (named != "" and not is_refused) != ("hardly anything" in answer) or f" {named}" not in answer:
            wrong.append(f"{call} names {named}: {answer}")
    lost = (await memory.admin.refinements(ANA, limit=1))[0].removed
    return [*wrong, *([f"{lost} lost, not {count}"] if lost != count else [])]


@pytest.mark.parametrize("case", CASES)
async def test_only_a_share_of_the_memories_may_be_lost(memory: Mnemic, model: LoopbackModel, case: str) -> None:
    assert await violations(memory, model, case) == []


async def _of_now(_: Any, __: Any, entry: LedgerEntry) -> list[refinements.Original]:
    """Originals, where a text is measured by the last one instead of what the session began with."""
    return [refinements.Original(entry.content, entry.subject, entry.valid_from)]


def _together(old: list[str], new: str, *, about: list[str]) -> list[bool]:
    """The rule where the texts that are replaced are compared as if they were one."""
    return [any(lost_memories([" ".join(old)], new, about=about))] * len(old)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "name", "wrong", "case"),
    [
        (refinements, "read_originals", _of_now, "many small steps"),
        (editor_module, "lost_memories", _together, "a merge into the text of one"),
    ],
)
async def test_control_without_its_rule_more_is_lost(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, case: str
) -> None:
    monkeypatch.setattr(where, name, wrong)

    assert await violations(memory, model, case)


async def test_what_is_lost_counts_for_the_session_and_not_for_the_next_one(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await keep(memory, SHORT, ENGLISH, OSLO)
    first, _ = await play(memory, model, delete(1), delete(2))
    second, _ = await play(memory, model, delete(1))

    assert [answer.startswith("Refused") for answer in [*first, *second]] == [False, True, False]


async def test_only_a_share_of_the_target_may_be_protected(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, refinement_target_tokens=80) as memory:  # a quarter: 20 tokens
        await keep(memory, SHORT, ENGLISH, OSLO)
        replies, result = await play(memory, model, protect(1), protect(2), protect(3), delete(1))

    assert [answer.startswith("Refused") for answer in replies] == [False, False, True, True]
    assert {"16", "20"} <= set(replies[2].split())
    assert (result.protected, result.deleted) == (2, 0)


# -- what a merge keeps of the merged, and what it leaves of them

FERRY, BERTH = "Mara asked for the ferry to Bergen.", "Mara pays for the berth in Porto."


async def messages_found(service: Mnemic, query: str) -> list[str]:
    found = await service.query(ANA, query, categories=["message"], search_type="text")
    return sorted(item.content for item in found)


async def test_merge_takes_the_oldest_age_and_the_highest_importance_and_privacy(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    new = (
        draft(SHORT, kind="reflection"),
        replace(draft(ENGLISH, kind="core"), importance=5),
        replace(draft("Ana wants tables.", kind="core"), importance=1, private=True, category="profile"),
    )
    hers = [replace(item, subject_user_id="ana", category="preferences") for item in new[:2]]
    made = await keep(memory, *hers, replace(new[2], subject_user_id="ana"))
    marks: Any = (
        "update memories set pinned = (id = %(one)s), tags = case when id = %(one)s then array['tone', 'answers']"
        " else array['answers'] end where kind = 'core'"
    )
    await operate(memory.resources.database, ANA, lambda tx: tx.execute(marks, {"one": made[1].id}))

    await play(memory, model, merge(3, 1, 2))

    (found,) = await memory.memories(ANA, ["core"])
    assert (found.content, found.kind, found.provenance, found.importance) == (BOTH, "core", "consolidated", 5)
    assert (found.pinned, found.private, found.protected) == (True, True, False)
    assert (found.valid_from, found.scope_key, found.category, found.subject) == (MORNING, KEY, "profile", "Ana")
    assert found.subject_user_id == "ana"
    assert await living(memory, "reflection") == []
    tags = superuser.execute("select tags from mnemic.memories where id = %s", (found.id,)).fetchone()
    assert tags == (["answers", "tone"],)


async def test_merge_rests_on_all_messages_of_its_sources_until_the_last_is_gone(
    memory: Mnemic, resources: Resources, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    said = [message(f"I say that {text}") for text in (FERRY, BERTH)]
    new = drafts(FERRY, BERTH, SHORT, ENGLISH, OSLO)  # of five two may be removed
    new[:2] = [replace(item, source_message_ids=(said[place].id,)) for place, item in enumerate(new[:2])]
    await erasing.form(resources.database, erasing.ANA, said, *new)

    await play(memory, model, merge(1, 2, into="Mara asked for the Bergen ferry and pays the Porto berth."))

    assert await messages_found(memory, "Mara") == [f"I say that {text}" for text in (FERRY, BERTH)]
    relations = superuser.execute("select to_id, relation_type from mnemic.relations").fetchall()
    assert sorted(relations) == sorted((item.id, "merged_from") for item in new[:2])

    await play(memory, model, delete(1))

    assert await messages_found(memory, "Mara") == []
