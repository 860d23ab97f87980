"""Where memory stands in a request: what changes seldom first, what belongs to the turn at the turn's own message."""

from copy import deepcopy
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from mnemic import with_memory
from mnemic.state.graphs import MemoryContext

CONTEXT = MemoryContext(standing="STANDING", turn="TURN", message_id="2")
MARK = {"cache_control": {"type": "ephemeral"}}
SYSTEM = SystemMessage("Be a guide.")
EARLIER = [HumanMessage("Good morning.", id="1"), AIMessage("Good morning.")]
OWN = HumanMessage("Where are my bees?", id="2")
CALL = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}])
#: What tools say in a user's place: providers take no picture from a tool.
SHOWN = HumanMessage("This is the picture.", id="3")


def contents(messages: list[BaseMessage]) -> list[Any]:
    return [message.content for message in messages]


@pytest.mark.parametrize("later", [[], [CALL, ToolMessage("Done.", tool_call_id="c")], [CALL, SHOWN]])
def test_the_turns_part_stays_at_its_message_whatever_comes_behind_it(later: list[BaseMessage]) -> None:
    request = [SYSTEM, *EARLIER, OWN, *later]
    before = deepcopy(request)
    assert contents(with_memory(request, CONTEXT)) == [
        "Be a guide.\n\nSTANDING",
        *contents(request[1:3]),
        "TURN\n\nWhere are my bees?",
        *contents(later),
    ]
    assert request == before


def test_parts_and_their_marks_stay_as_they_are_and_the_text_is_one_more() -> None:
    system: list[Any] = [{"type": "text", "text": "Be a guide.", **MARK}]
    said: list[Any] = [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "data:,"}, **MARK}]
    shown = contents(with_memory([SystemMessage(system), HumanMessage(said, id="2")], CONTEXT))
    standing, turn = ({"type": "text", "text": text} for text in ("STANDING", "TURN"))
    assert shown == [[*system, standing], [turn, *said]]


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        ([*EARLIER, SHOWN], ["STANDING", "Good morning.", "Good morning.", "TURN\n\nThis is the picture."]),
        ([SYSTEM, AIMessage("I begin.")], ["Be a guide.\n\nSTANDING\n\nTURN", "I begin."]),
        ([], ["STANDING\n\nTURN"]),
    ],
    ids=["its message is gone", "no user", "nothing"],
)
def test_memory_without_its_message_goes_to_the_last_one_or_to_the_end(
    messages: list[BaseMessage], shown: list[str]
) -> None:
    assert contents(with_memory(messages, CONTEXT)) == shown


def test_messages_without_ids_and_a_memory_that_says_nothing() -> None:
    said = [HumanMessage("One."), HumanMessage("Two.")]
    assert contents(with_memory(said, MemoryContext(standing="", turn="TURN"))) == ["One.", "TURN\n\nTwo."]
    assert with_memory([SYSTEM, OWN], MemoryContext(standing="", turn="")) == [SYSTEM, OWN]
