"""Structured output through the real OpenAI client, for every way in which an answer can be wrong."""

import json
import traceback
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, ConfigDict

from mnemic.models.chat import ChatModels
from mnemic.models.structured import structured
from mnemic.state.errors import ConfigurationError, ModelOutputError
from mnemic.state.kinds import Usage
from mnemic.state.settings import Settings
from tests.support.loopback import Answer, LoopbackModel, Reply, Request

Method = Literal["json_schema", "function_calling"]
SECRET = "Mara's diagnosis"
MESSAGES = [SystemMessage("Write down the note."), HumanMessage(SECRET)]


class Note(BaseModel):
    """A note."""

    model_config = ConfigDict(extra="forbid")

    text: str
    stars: int


GOOD = Note(text="Mara swims.", stars=3)


def tool_call(arguments: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "Note", "arguments": arguments}}
    return {"content": None, "tool_calls": [call]}


BAD_TEXTS = {
    "broken JSON": f'{{"text": "{SECRET}", "stars": }}',
    "half of the JSON": f'{{"text": "{SECRET}", "sta',
    "an empty object": "{}",
    "a wrong type": json.dumps({"text": SECRET, "stars": SECRET}),
    "a field too many": json.dumps({"text": "x", "stars": 1, SECRET: 1}),
    "not an object": json.dumps([SECRET]),
    "too long": json.dumps({"text": "".join(f"{SECRET} {n}, " for n in range(5000)), "stars": 1}),
    "one thing repeated": json.dumps({"text": SECRET * 300, "stars": 1}),
}
BAD_MESSAGES: dict[str, Answer] = {
    "empty": "",
    "prose": f"Here is the note: {SECRET}",
    "refused": {"content": None, "refusal": f"I cannot speak of {SECRET}"},
    "cut off": Reply(content=f'{{"text": "{SECRET}', finish_reason="length"),
    "filtered": Reply(content="", finish_reason="content_filter"),
}
FLAWS: list[tuple[Method, str, Answer]] = [
    *(("json_schema", name, text) for name, text in BAD_TEXTS.items()),
    *(("json_schema", name, answer) for name, answer in BAD_MESSAGES.items()),
    *(("function_calling", name, tool_call(text)) for name, text in BAD_TEXTS.items()),
    *(("function_calling", name, answer) for name, answer in BAD_MESSAGES.items()),
]
flawed = pytest.mark.parametrize(("method", "name", "answer"), FLAWS, ids=[f"{m}-{n}" for m, n, _ in FLAWS])


@pytest.fixture
def server() -> Iterator[LoopbackModel]:
    with LoopbackModel() as server:
        yield server


async def ask(server: LoopbackModel, method: Method) -> tuple[Note, Usage]:
    model = ChatModels(Settings(base_url=server.base_url, fast_model="openai:m")).get("fast")
    assert model is not None
    return await structured(model, Note, MESSAGES, method=method, spent=Usage(step="note", model="openai:m"))


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
async def test_a_good_answer_takes_one_call(server: LoopbackModel, method: Method) -> None:
    server.answer("Note", GOOD)

    note, usage = await ask(server, method)

    assert note == GOOD
    assert usage == Usage(step="note", model="openai:m", calls=1, input_tokens=100, output_tokens=10)


@flawed
async def test_one_repair_mends_a_flawed_answer(
    server: LoopbackModel, method: Method, name: str, answer: Answer
) -> None:
    server.answer("Note", answer, GOOD)

    note, usage = await ask(server, method)

    assert note == GOOD
    assert usage.calls == 2
    # The clients keep the usage of these two to themselves.
    lost = (method, name) in {("json_schema", "filtered"), ("function_calling", "not an object")}
    assert (usage.input_tokens, usage.output_tokens) == ((100, 10) if lost else (200, 20))
    first, second = (request["messages"] for request in server.chat_requests)
    assert second[: len(first)] == first
    assert "could not be used" in second[-1]["content"]


@flawed
async def test_a_flaw_that_stays_is_a_typed_failure_without_contents(
    server: LoopbackModel, method: Method, name: str, answer: Answer
) -> None:
    server.answer("Note", answer)

    with pytest.raises(ModelOutputError) as caught:
        await ask(server, method)

    assert len(server.chat_requests) == 2
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


async def test_the_repair_says_what_was_wrong(server: LoopbackModel) -> None:
    server.answer("Note", '{"text": "x", "stars": "many"}', GOOD)

    await ask(server, "json_schema")

    assert "stars: Input should be a valid integer" in server.chat_requests[1]["messages"][-1]["content"]


async def test_an_answer_without_usage_counts_its_call(server: LoopbackModel) -> None:
    server.answer("Note", Reply(content=GOOD.model_dump_json(), usage=None))

    _, usage = await ask(server, "json_schema")

    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 0, 0)


async def test_the_schema_is_strict_and_no_temperature_is_sent(server: LoopbackModel) -> None:
    server.answer("Note", GOOD)

    await ask(server, "json_schema")

    request: Request = server.chat_requests[0]
    assert request["response_format"]["json_schema"]["strict"] is True
    assert request["response_format"]["json_schema"]["schema"]["additionalProperties"] is False
    assert "temperature" not in request


async def test_a_model_without_structured_output_is_a_configuration_error() -> None:
    model = FakeListChatModel(responses=["x"])

    with pytest.raises(ConfigurationError, match="FakeListChatModel has no structured output"):
        await structured(model, Note, MESSAGES, method="json_schema", spent=Usage(step="note", model="fake"))
