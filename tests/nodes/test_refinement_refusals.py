"""What the knife refuses: every refusal names what it is about and what to do, and writes nothing."""

import asyncio
import re
from dataclasses import replace
from typing import Any, LiteralString

import psycopg
import pytest

from mnemic.operations.refinement import editor as core_rules
from mnemic.operations.refinement import edits as knife
from mnemic.policy.refinement.limits import given_up
from mnemic.service.memory import Mnemic
from mnemic.state.records import NewMemory
from mnemic.storage import refinements
from tests.support.loopback import LoopbackModel, Request, calling, offering
from tests.support.played_refinements import (
    ANA,
    DONE,
    ENGLISH,
    KEY,
    OSLO,
    SHORT,
    USAGE,
    Call,
    answers,
    delete,
    keep,
    living,
    merge,
    play,
    protect,
    search,
    set_protected,
    update,
)
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import identity, operate
from tests.support.worlds import memory as draft

LOOP = "safe harbor " * 40
LONG = "Ana mends sails, paints boats, repairs engines, sells anchors, teaches knots and rents canoes near Bergen."
LAW = "Ana must never be called before nine."
ONE_LIVING = "Ana lives by the harbour."
AGAIN = "Call again without that mistake, or go on without it."


def written(superuser: psycopg.Connection) -> list[Any]:
    """Every memory, byte for byte."""
    return superuser.execute("select to_jsonb(m) from mnemic.memories m where kind <> 'journal' order by id").fetchall()


@pytest.fixture
async def core(memory: Mnemic, superuser: psycopg.Connection) -> list[NewMemory]:
    """1 and 2 go together, 3 does not; 4 is protected, 5 the consolidation, 6 of Bo."""
    said = [draft(SHORT, kind="core"), draft(ENGLISH, kind="core"), draft(OSLO, kind="reflection"),
            draft(LAW, kind="core"), draft(ONE_LIVING, kind="consolidation"),
            draft("Bo wants long answers, in Norwegian.", kind="core", subject_user="bo")]  # fmt: skip
    made = await keep(memory, *said)
    set_protected(superuser, made[3])
    return made


REFUSED: dict[str, tuple[Call, str]] = {
    "an unknown number": (delete(17), r"there is no memory \[17\]: take numbers of the ledger"),
    "an unknown number among known ones": (merge(1, 18, 2), r"there is no memory \[18\]: take numbers of the ledger"),
    "several unknown numbers": (merge(17, 18), r"there is no memory \[17\], \[18\]"),
    "a number twice": (merge(1, 2, 1), r"\[1\] is named more than once: name each memory once"),
    "a merge of one": (
        merge(1, into="Ana wants it short."),
        r"at least two memories: change a single one with update_m",
    ),
    "a merge of none": (("consolidate_memories", {"ids_to_merge": [], "new_content": "x"}), "at least two memories"),
    "a merge with a protected one": (merge(1, 4), r"\[4\] is protected: leave it as it is"),
    "an update of a protected one": (update(4, "Ana sleeps long."), r"\[4\] is protected: leave it as it is"),
    "a deletion of a protected one": (delete(4), r"\[4\] is protected: leave it as it is"),
    "a protection of a protected one": (protect(4), r"\[4\] is protected: leave it as it is"),
    "a merge with the consolidation": (
        merge(1, 5),
        r"\[5\] is the consolidation .*: it changes by update_memory alone",
    ),
    "a deletion of the consolidation": (delete(5), r"\[5\] is the consolidation"),
    "a protection of the consolidation": (protect(5), r"\[5\] is the consolidation"),
    "a merge of two people": (merge(1, 6), r"\[1\], \[6\] are about different people: merge what is about one of them"),
    "no text": (update(1, ""), "the text is empty or repeats itself: write what the memories say, once"),
    "a text of blanks": (merge(1, 2, into=" \n\t "), "the text is empty"),
    "a text that cannot be seen": (update(1, "\u200b\u202e\ufeff"), "the text is empty"),
    "a text of joiners": (update(1, "\u200d\u200c"), "the text is empty"),
    "a loop": (merge(1, 2, into=LOOP), "the text is empty or repeats itself"),
    "a longer text": (
        update(1, f"{SHORT} {ENGLISH}"),
        r"the text has 16 tokens, what it replaces has 8: say it in fewer",
    ),
    "a longer merge": (merge(1, 2, into=f"{SHORT} {ENGLISH} {OSLO}"), r"has 24 tokens, what it replaces has 16"),
    "more than a memory holds": (
        update(1, " ".join(map(str, range(3000)))),
        "a memory holds at most 8192 bytes: merge fewer",
    ),
    "the same text": (update(1, SHORT), r"\[1\] says exactly this already"),
    "another one's text": (update(1, ENGLISH), r"\[2\] says exactly this already: delete what is superfluous"),
    "a summary of nothing": (("complete_refinement", {"summary": " "}), "the text is empty or repeats itself"),
    "a summary that loops": (("complete_refinement", {"summary": LOOP}), "the text is empty or repeats itself"),
    "a long summary": (
        ("complete_refinement", {"summary": " ".join(map(str, range(300)))}),
        "a summary has at most 500 characters: say it in a sentence or two",
    ),
    "number zero": (delete(0), "id: .* greater than or equal to 1"),
    "a negative number": (protect(-1), "id: .* greater than or equal to 1"),
    "a number beyond integers": (delete(2**40), "id: .* less than 2147483648"),
    "an id": (("delete_memory", {"id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}), "id: .* integer"),
    "no number": (("delete_memory", {}), "id: "),
    "a null": (("delete_memory", {"id": None}), "id: "),
    "a number in pieces": (("delete_memory", {"id": 1.5}), "id: .* integer"),
    "a list as text": (update(1, ["x"]), "content: .* string"),  # type: ignore[arg-type]  # what models do
    "no day": (search(query="x", after="soon"), "after: "),
    "a tool that is none": (
        ("forget", {"id": 1}),
        "there is no such tool. These are there: search_memories, consolidate",
    ),
}


async def test_what_is_refused_says_why_and_what_to_do_and_writes_nothing(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, core: list[NewMemory]
) -> None:
    before = written(superuser)

    told, result = await play(memory, model, *[call for call, _ in REFUSED.values()])

    for (name, (_, why)), answer in zip(REFUSED.items(), told, strict=True):
        assert re.search(why, answer), f"{name}: {answer}"
        assert answer.startswith("Refused: "), name
    assert written(superuser) == before
    assert (result["merged"], result["updated"], result["deleted"], result["protected"]) == (0, 0, 0, 0)
    assert result["ended"] == "completed"


@pytest.mark.parametrize(
    ("rule", "calls"),
    [
        ("_require_shorter", [merge(1, 2, into=f"{SHORT} {ENGLISH} {OSLO}")]),
        ("_require_one_person", [merge(1, 6)]),
        ("is_degenerate", [update(1, "safe " * 6)]),
        ("says_nothing", [update(1, "\u200d\u200c")]),
    ],
)
async def test_control_without_its_rule_a_call_is_not_refused(
    memory: Mnemic,
    model: LoopbackModel,
    core: list[NewMemory],
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    calls: list[Call],
) -> None:
    monkeypatch.setattr(knife, rule, lambda *_, **__: False)

    told, _ = await play(memory, model, *calls)

    assert USAGE.search(told[-1]), told


async def test_what_cannot_be_read_as_arguments_is_told_so(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, core: list[NewMemory]
) -> None:
    before = written(superuser)
    broken = ['{"id": ', "[1]", '"delete 1"', '{"id": NaN}', '{"content": "\\ud800", "id": 1}', ""]
    calls: Any = [("delete_memory", text) for text in broken]

    told, _ = await play(memory, model, *calls)

    unreadable = "Refused: the arguments could not be read. Call again with complete JSON of the form the tool takes."
    assert told[:5] == [unreadable] * 5
    assert told[5].startswith("Refused: ")
    assert written(superuser) == before


async def test_unknown_arguments_beside_the_known_ones_reach_nothing(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory]
) -> None:
    beside = {"scope_key": "user:bo", "agent_id": "museum", "protected": False, "force": True}

    (told, law), _ = await play(
        memory, model, ("delete_memory", {"id": 1, **beside}), ("delete_memory", {"id": 4, **beside})
    )

    assert told.startswith("[1] is gone.")
    assert law.startswith("Refused: [4] is protected")


async def test_a_number_whose_memory_has_gone_is_as_an_unknown_one(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory]
) -> None:
    told, _ = await play(
        memory, model, merge(1, 2), merge(1, 7), update(2, "x"), delete(1), protect(2), delete(7), delete(7)
    )

    assert told[0].startswith("[1], [2] became [7]: 16 tokens, now 11.")
    gone = [re.search(r"there is no memory (\[\d\])", answer) for answer in told[1:5]]
    assert [found and found.group(1) for found in gone] == ["[1]", "[2]", "[1]", "[2]"]
    assert told[5].startswith("[7] is gone.")
    assert "there is no memory [7]" in told[6]


async def test_what_somebody_changed_meanwhile_is_shown_and_then_decided_on_again(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory]
) -> None:
    def changing(_: Request) -> Any:
        asyncio.run_coroutine_threadsafe(_change(memory, core[0]), loop).result(timeout=30)
        return calling(delete(1))

    loop = asyncio.get_running_loop()
    look = search(query="answers", before="2026-03-03")
    model.answer(offering("complete_refinement"), changing, *map(calling, (delete(1), look, delete(1), DONE)))
    await memory.refine(ANA, KEY, force=True)

    refused, again, seen, done = answers(model.chat_requests[-1])
    assert refused.startswith(
        "Refused: [1] was changed by somebody else meanwhile: see with search_memories how it reads"
    )
    assert again == refused
    assert "[1] core, profile, since 2026-03-02" in seen
    assert "importance 5" in seen
    assert done.startswith("[1] is gone.")


async def _change(service: Mnemic, one: NewMemory) -> None:
    statement: LiteralString = "update memories set importance = 5 where id = %(id)s"
    await operate(service._resources.database, ANA, lambda scoped: scoped.execute(statement, {"id": one.id}))


async def test_only_a_share_of_the_memories_may_be_taken_away(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, core: list[NewMemory]
) -> None:
    # a quarter of 6, rounded up; what the merge guts counts as what a deletion takes
    told, result = await play(
        memory, model, delete(1), delete(2), delete(3), update(3, "Fine."), merge(2, 3, into="Fine.")
    )

    assert told[0].startswith("[1] is gone. 1 more may go. Now 43 tokens in 5 memories; target 5,000.")
    assert told[1].startswith("[2] is gone. 0 more may go. ")
    refused = "Refused: a session may take away 2 memories and no more: keep what [3] say, in fewer words."
    assert [answer[: len(refused)] == refused for answer in told[2:4]] == [True, True]
    assert (result["deleted"], result["updated"]) == (2, 0)
    assert superuser.execute("select removed from mnemic.refinements").fetchall() == [(2,)]


async def test_a_merge_that_keeps_hardly_a_word_counts_as_what_it_takes_away(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await keep(memory, SHORT, ENGLISH, OSLO, LAW, LONG)

    (refused, merged, then), result = await play(
        memory, model, merge(1, 2, 3, 4, into="Be kind."), merge(1, 2, into="Be kind."), delete(3)
    )

    assert "a session may take away 2 memories and no more: keep what [1], [2], [3], [4] say" in refused
    assert merged.startswith("[1], [2] became [6]")
    assert "It keeps hardly anything of [1], [2]: that counts as taken away." in merged
    assert "may take away 2 memories and no more" in then
    assert (result["merged"], result["deleted"]) == (2, 0)
    assert superuser.execute("select removed from mnemic.refinements").fetchall() == [(2,)]


async def test_what_is_taken_away_counts_for_the_whole_session_and_not_for_the_next_one(
    memory: Mnemic, model: LoopbackModel, core: list[NewMemory]
) -> None:
    first, _ = await play(memory, model, delete(1), delete(2), delete(3))
    second, _ = await play(memory, model, delete(1))

    assert [answer.startswith("Refused") for answer in [*first, *second]] == [False, False, True, False]


async def test_only_a_share_of_the_target_may_be_protected(clean_db: Clone, model: LoopbackModel) -> None:
    small = {"refinement_target_tokens": 80}  # a quarter: 20 tokens
    async with scripted_memory(clean_db, model, agent_model="openai:voice", **small) as service:
        await keep(service, SHORT, ENGLISH, OSLO)
        told, result = await play(service, model, protect(1), protect(2), protect(3), delete(1))

    assert told[0].startswith("[1] is protected from now on. Now ")
    assert told[2] == f"Refused: [3] does not fit: 16 tokens are protected, and at most 20 may be. {AGAIN}"
    assert told[3].startswith("Refused: [1] is protected: leave it as it is")
    assert (result["protected"], result["deleted"]) == (2, 0)


async def test_after_the_end_no_tool_does_anything(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, core: list[NewMemory]
) -> None:
    before = written(superuser)
    late = [delete(1), merge(1, 2), update(1, "Short."), protect(1), DONE]
    model.answer(offering("complete_refinement"), calling(DONE, *late))

    result = await memory.refine(ANA, KEY, force=True)

    assert written(superuser) == before
    assert result["ended"] == "completed"
    assert await memory.memories(ANA, ["journal"]) == []
    # so much of it went to the model: nothing, for the session was over
    assert len(model.chat_requests) == 1


async def test_memories_of_others_are_not_found_and_have_no_number(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, core: list[NewMemory]
) -> None:
    await keep(memory, "Bo wants long answers at night.", who=identity("bo"), key="user:bo")
    await keep(memory, "The museum opens at night.", who=identity("ana", agent="museum"))
    await keep(memory, "Visitors come at night.", key="agent:harbor")

    (told,), _ = await play(memory, model, search(query="night"))

    assert told == "Nothing was found."
    assert await living(memory, who=identity("bo")) == ["Bo wants long answers at night.", "Visitors come at night."]


#: Each keeps a third of the words of the one before it, and the second none of the first.
STEPS = (
    "Ana mends sails, boats, anchors, knots, says Olaf Svensson of the Viken yard.",
    "Olaf Svensson has the Viken yard.",
)


@pytest.mark.parametrize("is_bounded", [True, False])
async def test_many_small_steps_take_away_no_more_than_one(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, is_bounded: bool
) -> None:
    """A text is measured by what the memory said when the session began; the control measures by the last one."""
    await keep(memory, LONG, SHORT)
    if not is_bounded:

        async def of_now(_: Any, __: Any, entry: Any) -> list[tuple[str, str]]:
            return [(entry.content, entry.subject)]

        monkeypatch.setattr(refinements, "originals", of_now)
    await play(memory, model, *(update(1, text) for text in STEPS))

    (session,) = await memory.refinements(ANA)
    assert (session.removed > 0) == is_bounded


async def test_what_went_into_a_merge_is_what_its_text_is_measured_by(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, LONG, SHORT, ENGLISH, OSLO, LAW)
    told, _ = await play(
        memory,
        model,
        merge(1, 2, into=f"{LONG} {SHORT}"),
        update(6, "Ana sells anchors near Bergen."),
        update(6, "Ana."),  # what has gone does not go again
        delete(3),
    )

    assert "became [6]" in told[0]
    assert ["It keeps hardly anything of [6]" in answer for answer in told[:3]] == [False, True, False]
    assert "may take away 2 memories and no more: keep what [3] say" in told[3]
    (session,) = await memory.refinements(ANA)
    assert session.removed == 2


#: What a session must not lose unnoticed, each in a few words of its own.
BRIEF = [f"Ana {said}." for said in ("is allergic to peanuts", "must take insulin", "promised to call her mother",
                                      "plays chess", "likes jazz", "grows tomatoes", "fears dogs")]  # fmt: skip


async def everything_into_the_long_one(memory: Mnemic, model: LoopbackModel) -> tuple[str, int]:
    """What a merge of eight memories into the text of one of them was answered, and what it counts."""
    await keep(memory, LONG, *BRIEF)
    (told,), _ = await play(memory, model, merge(*range(1, 9), into=LONG))
    (session,) = await memory.refinements(ANA)
    return told, session.removed


async def test_a_merge_into_the_text_of_one_takes_the_others_away(memory: Mnemic, model: LoopbackModel) -> None:
    told, removed = await everything_into_the_long_one(memory, model)

    assert told.startswith("Refused: a session may take away 2 memories and no more: keep what [2], [3], [4], [5]")
    assert removed == 0
    assert await living(memory) == sorted([LONG, *BRIEF])


async def test_control_measured_as_one_text_a_merge_swallows_all_the_others(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def together(old: list[str], new: str, *, about: list[str]) -> list[bool]:
        return [False] * len(old) if not any(given_up([" ".join(old)], new, about=about)) else [True] * len(old)

    monkeypatch.setattr(core_rules, "given_up", together)

    told, removed = await everything_into_the_long_one(memory, model)

    assert (told.startswith("[1], [2], [3]"), removed) == (True, 0)
    assert await living(memory) == [LONG]


async def test_a_merge_that_forgot_one_says_which_and_counts_it(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT, ENGLISH, BRIEF[0], OSLO)

    (told,), result = await play(memory, model, merge(1, 2, 3))

    assert "It keeps hardly anything of [3]: that counts as taken away." in told
    (session,) = await memory.refinements(ANA)
    assert (session.removed, result["merged"]) == (1, 3)


async def test_what_a_merge_put_together_is_taken_away_one_by_one(memory: Mnemic, model: LoopbackModel) -> None:
    """Neither a deletion of a merged memory nor another text of it takes many for one, and none counts twice."""
    await keep(memory, LONG, *BRIEF)
    whole = " ".join([LONG, *BRIEF[:3]])

    told, _ = await play(
        memory,
        model,
        merge(*range(1, 5), into=whole),
        delete(9),
        update(9, LONG),
        update(9, f"{LONG} {BRIEF[0]} {BRIEF[1]}"),
        update(9, f"{LONG} {BRIEF[0]}"),
        update(9, LONG),
        merge(9, 5, into=f"{LONG} {BRIEF[3]}"),
    )

    refused = "Refused: a session may take away 2 memories and no more: keep what [9] say"
    assert told[0].startswith("[1], [2], [3], [4] became [9]")
    assert [answer.startswith(refused) for answer in told[1:]] == [True, True, False, False, True, True]
    (session,) = await memory.refinements(ANA)
    assert session.removed == 2


async def test_what_an_update_took_away_is_not_taken_away_again_by_its_deletion(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await keep(memory, LONG, SHORT, OSLO, LAW)

    (updated, deleted, then), result = await play(memory, model, update(1, "Fine."), delete(1), delete(2))

    assert "It keeps hardly anything of [1]: that counts as taken away." in updated
    assert deleted.startswith("[1] is gone. 0 more may go.")
    assert "may take away 1 memories and no more: keep what [2] say" in then
    (session,) = await memory.refinements(ANA)
    assert (session.removed, result["deleted"]) == (1, 1)


@pytest.mark.parametrize("is_bounded", [True, False])
async def test_the_deletion_of_what_has_no_telling_word_counts_too(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, is_bounded: bool
) -> None:
    """The control holds a deletion for a text that tells nothing, by which what told nothing is kept."""
    if not is_bounded:
        monkeypatch.setattr(core_rules, "given_up", lambda old, new, *, about: given_up(old, new or "...", about=about))
    await keep(memory, "😀", "It is.", OSLO, LAW)

    told, _ = await play(memory, model, update(1, "🙂"), delete(1), delete(2))

    assert [answer.startswith("Refused") for answer in told] == [False, False, is_bounded]
    (session,) = await memory.refinements(ANA)
    assert session.removed == (1 if is_bounded else 0)


NAMELESS = [
    replace(draft(f"{name} {said}.", kind="core"), subject=name)
    for name, said in (("Bo", "wants long answers"), ("Carl", "is diabetic"), ("bo", "wants tables"))
]


async def test_people_without_an_account_are_told_apart_by_name(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, *NAMELESS)

    (two, one), _ = await play(
        memory, model, merge(1, 2, into="Long answers, diabetic."), merge(1, 3, into="Bo wants long answers, tables.")
    )

    assert two.startswith("Refused: [1], [2] are about different people")
    assert one.startswith("[1], [3] became [4]")


async def test_what_is_about_no_account_is_deleted_and_protected_alike(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, *NAMELESS)

    told, _ = await play(memory, model, delete(1), protect(2))

    assert [answer.startswith("Refused") for answer in told] == [False, False]
