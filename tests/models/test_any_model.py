"""Models of any kind: given as objects, without structured output, slow, looping, with arguments of their own."""

import json
import threading
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI

from mnemic.models.chat import ChatModels, name_of
from mnemic.models.loopback import refusal
from mnemic.models.structured import run_step
from mnemic.models.tool_calls import run_answer
from mnemic.state.errors import ConfigurationError, ModelError
from mnemic.state.settings import Settings
from tests.models.test_structured import GOOD, NOTE, ModelOverrides
from tests.support.deadlines import expiring
from tests.support.loopback import LoopbackModel, Reply, Request

NOTED = GOOD.model_dump_json()
OTHER = json.dumps({"text": "An example.", "stars": 5})
#: What a model without structured output says around its answer.
AROUND = {
    "alone": NOTED,
    "fenced": f"```json\n{NOTED}\n```",
    "prose around it": f"Here is the note:\n{NOTED}\nShall I write another one?",
    "thought aloud": f"<think>Like {OTHER}? No, {{worse}}.</think>\n\n{NOTED}",
    "an example first": f"Such as {OTHER}. But here it is:\n{NOTED}",
    "braces before": f"In {{short}}: {NOTED}",
}


def settings(endpoint: LoopbackModel, **more: Any) -> Settings:
    return Settings(base_url=endpoint.base_url, fast_model="openai:m", agent_model="openai:m", **more)


@pytest.mark.parametrize("name", AROUND)
async def test_json_is_read_out_of_text_and_the_schema_stands_in_the_request(
    endpoint: LoopbackModel, name: str
) -> None:
    endpoint.answer("Note", AROUND[name])

    note, _ = await run_step(NOTE, ModelOverrides(), ChatModels(settings(endpoint, structured_output="text")))

    assert note == GOOD
    (request,) = endpoint.chat_requests
    assert not request.keys() & {"tools", "response_format"}
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert '"stars"' in request["messages"][1]["content"]


# -- a chat model that the host has made


class Brass(BaseChatModel):
    """A chat model of somebody's own."""

    model_name: str = "brass-1"

    @property
    def _llm_type(self) -> str:
        return "brass"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(NOTED))])


async def test_a_model_that_the_host_has_made_is_asked_and_stays_as_it_was() -> None:
    own = Brass(tags=["mine"])
    name = name_of(own)
    models = ChatModels(Settings(fast_model=name, structured_output="text"), {("fast", name): own})

    note, spent = await run_step(NOTE, ModelOverrides(), models)

    assert (note, spent.model) == (GOOD, "Brass:brass-1")
    assert (own.tags, own.disable_streaming) == (["mine"], False)
    hidden, shown = models.get("fast"), models.get("fast", shown=True)
    assert hidden is not None
    assert (hidden.tags, hidden.disable_streaming) == (["mine", "nostream"], True)
    assert shown is own


# -- what it is made with


def test_a_providers_own_arguments_go_before_ours() -> None:
    own = {"openai:m": {"temperature": 0.7, "reasoning_effort": "low", "max_tokens": 99}}
    models = ChatModels(Settings(api_key="k", fast_model="openai:m", slow_model="openai:n", model_arguments=own))
    fast, slow = models.get("fast"), models.get("slow")

    assert isinstance(fast, ChatOpenAI)
    assert isinstance(slow, ChatOpenAI)
    assert (fast.temperature, fast.reasoning_effort, fast.max_tokens) == (0.7, "low", 99)
    assert (slow.temperature, slow.reasoning_effort, slow.max_tokens) == (0, None, 16_384)


def test_temperature_is_not_sent_to_models_that_refuse_it_or_that_chat() -> None:
    models = ChatModels(Settings(api_key="k", fast_model="openai:o3-mini", agent_model="openai:gpt-4.1"))
    found = [models.get("fast"), models.get("agent"), models.get("agent", shown=True)]

    assert [getattr(model, "temperature", "none") for model in found] == [None, 0, None]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("azure_openai:gpt-4.1", "credentials"),
        ("nowhere:model", "provider='nowhere'"),
        ("anthropic:model", "langchain-anthropic"),
    ],
)
def test_unusable_model_is_reported_in_one_line_that_names_the_setting(name: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^MNEMIC_FAST_MODEL is '{name}'.*{told}") as caught:
        ChatModels(Settings(fast_model=name)).get("fast")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_a_base_url_without_a_scheme_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"base_url: .*http://"):
        Settings(base_url="localhost:8000/v1")


# -- time and tries


async def test_an_answer_that_does_not_come_ends_at_the_deadline(
    endpoint: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    models = ChatModels(settings(endpoint, model_timeout_seconds=30, model_deadline_seconds=40))
    expire = expiring(monkeypatch, 40)
    waiting = []

    def arrive(_: Request) -> Reply:
        waiting.extend(models.under_way())
        expire()
        return Reply(content=NOTED, after=never)

    endpoint.answer("Note", arrive)
    try:
        with pytest.raises(ModelError, match=r"timeout: .*MNEMIC_MODEL_DEADLINE_SECONDS"):
            await run_step(NOTE, ModelOverrides(), models)
    finally:
        never.set()
    assert [(one.step, one.model) for one in waiting] == [("note", "openai:m")]
    assert models.under_way() == []
    assert len(endpoint.chat_requests) == 1


async def test_a_used_up_quota_is_not_asked_again(endpoint: LoopbackModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(path: str, request: dict[str, Any]) -> tuple[int, str, bytes]:
        asked.append(path)
        return refusal(429, "insufficient_quota", "scripted")

    monkeypatch.setattr(endpoint, "reply_to", refuse)
    with pytest.raises(ModelError, match=r"quota used up \(HTTP 429, insufficient_quota\): .*MNEMIC_API_KEY"):
        await run_step(NOTE, ModelOverrides(), ChatModels(settings(endpoint)))
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>Not Found</html>", "nothing at this path .*MNEMIC_BASE_URL, which is http://.*/v1"),
        (b'{"detail": "Not Found"}', "nothing at this path"),
        (b'{"error": {"message": "x", "code": "model_not_found"}}', "unknown model .*MNEMIC_FAST_MODEL"),
        (b'{"error": {"message": "x", "code": null}}', "unknown model or path .*MNEMIC_FAST_MODEL or MNEMIC_BASE_URL"),
    ],
)
async def test_wrong_path_is_distinguished_from_an_unknown_model_if_possible(
    endpoint: LoopbackModel, monkeypatch: pytest.MonkeyPatch, body: bytes, told: str
) -> None:
    kind = "application/json" if body[:1] == b"{" else "text/html"
    monkeypatch.setattr(endpoint, "reply_to", lambda *_: (404, kind, body))
    with pytest.raises(ModelError, match=told):
        await run_step(NOTE, ModelOverrides(), ChatModels(settings(endpoint)))


async def test_an_answer_of_which_a_part_was_shown_is_not_asked_for_again(endpoint: LoopbackModel) -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    begun = {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Once upon"}}]}
    failing = {"error": {"message": "scripted", "type": "server_error", "code": "server_error"}}
    stream = f"data: {json.dumps(begun)}\n\ndata: {json.dumps(failing)}\n\n"
    endpoint.answer(lambda request: bool(request.get("stream")), stream.encode())
    models = ChatModels(settings(endpoint, model_arguments={"openai:m": {"streaming": True}}))

    with pytest.raises(ModelError):
        await run_answer([HumanMessage("Tell me a story.")], [], models)
    assert len(endpoint.chat_requests) == 1
