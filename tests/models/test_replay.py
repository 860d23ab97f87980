"""A record of answers: given again for the very same request, and for no other."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mnemic.models.chat import ChatModels
from mnemic.models.replay import TURN, Exchange, Replay, exchange, read_record
from mnemic.models.structured import run_step
from mnemic.prompts.consolidation.write_consolidation import WRITE_CONSOLIDATION, WriteConsolidationInput
from mnemic.prompts.formation.decide import DECIDE, DecideOutput
from mnemic.prompts.formation.extraction import EXTRACT_FACTS, EXTRACT_REFLECTIONS
from mnemic.prompts.loader import Step
from mnemic.state.errors import ConfigurationError, ModelError
from mnemic.state.settings import Settings
from tests.support.loopback import tool_call

STEPS = (EXTRACT_FACTS, EXTRACT_REFLECTIONS, DECIDE, WRITE_CONSOLIDATION)
ASKED = WriteConsolidationInput(
    scope="user", owner="Ana", current="", reflections=[], word_limit=50, guidance="", today=date(2026, 3, 2)
)


async def written(replay: Replay, asked: WriteConsolidationInput) -> str:
    return (await run_step(WRITE_CONSOLIDATION, asked, ChatModels(Settings(**replay.settings())))).output.text


async def test_a_recorded_answer_is_replayed_for_the_same_input_only(
    tmp_path: Path,
) -> None:
    answer = {"role": "assistant", "content": '{"text": "Ana keeps bees."}'}
    with Replay([], "", lambda *_: answer) as made:
        made.session = "01"
        await written(made, ASKED)
    (exchanged,) = [one for _, one in made.exchanges]
    file = tmp_path / "record.jsonl"
    file.write_text(json.dumps(exchanged._asdict()), encoding="utf-8")
    assert "Ana" not in file.read_text("utf-8").replace("Ana keeps bees", "")  # no text of the request

    with Replay(read_record(file), "record anew") as replay:
        assert await written(replay, ASKED) == "Ana keeps bees."
    assert replay.notes() == []
    with (
        pytest.raises(ModelError, match=r"1 of write_consolidation.*anew"),
        Replay([exchanged], "record anew") as it,
    ):
        await written(it, ASKED._replace(owner="Bo"))


async def test_an_answer_of_another_prompt_is_replayed_with_a_note() -> None:
    answer = {"role": "assistant", "content": '{"text": "Ana keeps bees."}'}
    with Replay([], "", lambda *_: answer) as made:
        await written(made, ASKED)
    (recorded,) = [one for _, one in made.exchanges]
    with Replay([recorded._replace(prompt="another")], "record anew") as replay:
        assert await written(replay, ASKED) == "Ana keeps bees."
    assert replay.notes() == ["write_consolidation: 1 of the answers were recorded with another prompt"]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.prompt.name)
def test_the_values_of_a_rendered_prompt_can_be_read_again(step: Step[Any, Any]) -> None:
    slots = re.findall(r"\{\{(\w+)\}\}", step.prompt.user)
    values = {slot: f"some {slot} &lt;b&gt;\n{{{{limit}}}} of it" for slot in slots}
    for filled in (values, dict.fromkeys(slots, "")):
        _, user = step.prompt.render(**filled)
        assert step.prompt.read_values(user) == filled
    assert step.prompt.read_values("another text") is None


def test_a_decision_names_stored_facts_by_their_words_wherever_they_stand() -> None:
    new, rows, hives = "new 1 [2026-05-20; user Ana]: Ana sails.\n", "Ana rows.\n", "Ana has two hives.\n"
    asked, later = (
        {
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": f"{new}{''.join(known)}"}],
            "response_format": {"json_schema": {"name": DecideOutput.__name__}},
        }
        for known in (
            (f"  known 1 [2026-02-01]: {rows}", f"  known 2 [2026-02-01]: {hives}", "  known above: 1\n"),
            (f"  known 1 [2026-02-01; group Crew]: {hives}", f"  known 2 [2026-02-01]: {rows}"),
        )
    )
    decided = {"decisions": [{"fact": 1, "event": "DELETE", "known": [1], "text": "Ana sails."}]}
    kept, same = (exchange(request, "01", {"content": json.dumps(decided)}) for request in (asked, later))
    assert kept.key == same.key
    assert json.loads(kept.message(asked)["content"]) == decided
    assert json.loads(kept.message(later)["content"])["decisions"][0]["known"] == [2]


def test_text_and_tool_calls_come_back_as_they_were() -> None:
    request = {"messages": [{"role": "system", "content": "You tidy a memory that has grown."}]}
    for message in (
        {"role": "assistant", "content": "not { JSON"},
        {"role": "assistant", "content": '{"a": 1}'},
        {"role": "assistant", "content": "", "tool_calls": [tool_call("call_1", "protect_memory", {"id": 3})]},
    ):
        kept = exchange(request, "01", message)
        assert kept.step == TURN
        assert Exchange(**json.loads(json.dumps(kept._asdict()))).message(request) == message


@pytest.mark.parametrize("content", [None, "[", "{}", '{"key": 1}'])
def test_a_file_that_is_no_record_is_one_typed_error(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"record\.jsonl"):
        read_record(file)
