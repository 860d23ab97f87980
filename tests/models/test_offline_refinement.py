"""Without a model a refinement puts the values of one attribute into one sentence, loses nothing, and stops."""

from collections.abc import Sequence
from typing import Any

import pytest

from mnemic.models.offline import steps as offline
from mnemic.policy.text.details import missing_details
from mnemic.policy.text.shape import count_tokens
from mnemic.prompts.refine import RefineInput
from mnemic.state.refinement import Budget, LedgerEntry, ToolCall, Turn
from tests.support.ledgers import entry, ledger, tokens_of

GERMAN, FRENCH, GREEK = "Mara speaks German.", "Mara speaks French.", "Mara speaks Greek."


def given_of(entries: Sequence[LedgerEntry], target: int) -> RefineInput:
    budget = Budget(tokens_of(entries), target, protected=0, most_protected=target // 4, removable=0)
    return RefineInput("", "agent", "Mara", budget, batch=1, batches=1, ledger=tuple(entries))


def calls_of(step_input: RefineInput, answer: str = "Done.") -> list[ToolCall]:
    """The calls of turn after turn until there is none any more; a refiner that loops fails here."""
    turns: list[Turn] = []
    for _ in range(100):
        turn = offline.refine(step_input._replace(turns=tuple(turns)))
        assert len(turn.calls) <= 16
        if not turn.calls:
            return [call for turn in turns for call in turn.calls]
        turns.append(Turn(calls=tuple(call._replace(answer=answer) for call in turn.calls)))
    raise AssertionError("it never ends")


def merges_of(*contents: str, target: int = 1) -> list[Any]:
    """The merges of a core memory, and the completion behind them."""
    *merges, last = calls_of(given_of(ledger(*contents), target))
    assert last.name == "complete_refinement"
    assert {call.name for call in merges} <= {"consolidate_memories"}
    return [call.arguments for call in merges]


def test_values_of_one_attribute_become_one_sentence() -> None:
    assert merges_of(GERMAN, "Mara likes jazz.", FRENCH, GREEK) == [
        {"ids_to_merge": [1, 3, 4], "new_content": "Mara speaks German, French and Greek."}
    ]
    assert merges_of(
        "Mara wants the assistant to never use emojis.", "Mara wants the assistant to never mention work."
    ) == [{"ids_to_merge": [1, 2], "new_content": "Mara wants the assistant to never use emojis and mention work."}]


@pytest.mark.parametrize(
    "contents",
    [
        (GERMAN, "Teo speaks French."),
        ("Mara lives in Porto.", "Mara lives in Braga."),
        ("Mara likes tea.", "Mara does not like coffee."),
        ("Mara's sister is called Rita.", "Mara's brother is called Teo."),
        ("Mara paints old boats.", "Mara paints old boats in Oslo."),
    ],
)
def test_what_the_table_does_not_put_together_stays(contents: tuple[str, ...]) -> None:
    assert merges_of(*contents) == []


@pytest.mark.parametrize(
    "other", [{"protected": True}, {"private": True}, {"subject_user_id": "teo"}, {"kind": "consolidation"}]
)
def test_what_may_not_be_merged_is_left_alone(other: dict[str, Any]) -> None:
    (call,) = calls_of(given_of([entry(1, GERMAN), entry(2, FRENCH, **other)], 1))
    assert call.name == "complete_refinement"


def test_no_detail_is_lost_and_it_stops_at_the_target() -> None:
    names = [f"K{a}{b}" for a in "aeiou" for b in "lmnrst"]
    contents = [f"Mara's {kin} is called {name}." for name in names for kin in ("aunt", "uncle")]
    merges = merges_of(*contents)
    assert len(merges) == 2
    for merge in merges:
        sources = [contents[handle - 1] for handle in merge["ids_to_merge"]]
        assert missing_details(sources, merge["new_content"]) == ()
        assert count_tokens(merge["new_content"]) < sum(map(count_tokens, sources))
    assert len(merges_of(*contents, target=tokens_of(ledger(*contents)) - 1)) == 1
    assert merges_of(*contents, target=tokens_of(ledger(*contents))) == []


def test_what_is_refused_is_not_asked_again_and_only_the_last_batch_completes() -> None:
    step_input = given_of(ledger(GERMAN, FRENCH), 1)
    assert [call.name for call in calls_of(step_input, "Refused: it is protected.")] == [
        "consolidate_memories",
        "complete_refinement",
    ]
    assert [call.name for call in calls_of(step_input._replace(batches=2))] == ["consolidate_memories"]
