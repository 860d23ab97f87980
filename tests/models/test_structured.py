"""Structured output through real clients: every way in which an answer can be wrong, and every way to have none."""

import json
import random
import re
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import pytest
from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError, ModelRateLimitError
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

from mnemic.models import failures
from mnemic.models.chat import ChatModels
from mnemic.models.structured import run_step
from mnemic.prompts.loader import Step, StepOutput, parse_prompt
from mnemic.state.errors import ConfigurationError, ModelError, ModelOutputError
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import Tier
from mnemic.state.settings import Settings
from tests.support.loopback import Answer, LoopbackModel, Reply

Method = Literal["json_schema", "function_calling", "text"]
SECRET = "Mara's diagnosis"


class Note(StepOutput):
    """A note."""

    text: str
    stars: int


class ModelOverrides(NamedTuple):
    """What the step is given."""

    conversation: str = SECRET

    def variables(self) -> dict[str, str]:
        return self._asdict()


NOTE = Step[ModelOverrides, Note](
    parse_prompt("note", "# system\nWrite down the note.\n\n# user\n{{conversation}}\n"), Note, "fast"
)
GOOD = Note(text="Mara swims.", stars=3)


class Always(ChatModels):
    """One model for every tier."""

    def __init__(self, model: BaseChatModel) -> None:
        super().__init__(Settings(fast_model="provider:m", slow_model="provider:m", structured_output="json_schema"))
        self.model = model

    def get(self, tier: Tier, *, shown: bool = False) -> BaseChatModel:
        return self.model


async def ask(base_url: str, method: Method = "json_schema") -> tuple[Note, Usage]:
    settings = Settings(base_url=base_url, fast_model="openai:m", structured_output=method)
    return await run_step(NOTE, ModelOverrides(), ChatModels(settings))


def check_quotes_nothing(error: ModelError) -> None:
    assert (error.__cause__, error.__context__) == (None, None)
    written = "".join(traceback.format_exception(error))
    assert SECRET not in written
    assert "scripted failure" not in written


# -- answers


def tool_call(arguments: Any) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "Note", "arguments": arguments}}
    return {"content": None, "tool_calls": [call]}


BAD_TEXTS = {
    "broken JSON": f'{{"text": "{SECRET}", "stars": }}',
    "half of the JSON": f'{{"text": "{SECRET}", "sta',
    "an empty object": "{}",
    "a wrong type": json.dumps({"text": SECRET, "stars": SECRET}),
    "another record": json.dumps({SECRET: SECRET, "rows": [1, 2]}),
    "a list of records": json.dumps([GOOD.model_dump()]),
    "not an object": json.dumps([SECRET]),
    "nothing": "",
    "brackets without end": "[" * 20_000,
    "too long": json.dumps({"text": "".join(f"{SECRET} {n}, " for n in range(5000)), "stars": 1}),
    "one thing repeated": json.dumps({"text": SECRET * 300, "stars": 1}),
}
LOST_USAGE = {
    ("json_schema", "filtered"),
    ("function_calling", "not an object"),
    ("function_calling", "a list of records"),
}
BAD_MESSAGES: dict[str, Answer] = {
    "empty": "",
    "prose": f"Here is the note: {SECRET}",
    "refused": {"content": None, "refusal": f"I cannot speak of {SECRET}"},
    "cut off": Reply(content=f'{{"text": "{SECRET}', finish_reason="length"),
    "filtered": Reply(content="", finish_reason="content_filter"),
}
FLAWS: list[tuple[Method, str, Answer]] = [
    *(("json_schema", name, answer) for name, answer in (BAD_TEXTS | BAD_MESSAGES).items()),
    *(("function_calling", name, tool_call(text)) for name, text in BAD_TEXTS.items()),
    *(("function_calling", name, answer) for name, answer in BAD_MESSAGES.items()),
    *(("text", name, answer) for name, answer in (BAD_TEXTS | BAD_MESSAGES).items()),
]
flawed = pytest.mark.parametrize(("method", "name", "answer"), FLAWS, ids=[f"{m}-{n}" for m, n, _ in FLAWS])


@flawed
async def test_one_repair_mends_a_flawed_answer(
    endpoint: LoopbackModel, method: Method, name: str, answer: Answer
) -> None:
    endpoint.answer("Note", answer, GOOD)

    note, usage = await ask(endpoint.base_url, method)

    assert note == GOOD
    assert usage.calls == 2
    # The clients keep the usage of these to themselves.
    lost = (method, name) in {
        ("json_schema", "filtered"),
        ("function_calling", "not an object"),
        ("function_calling", "a list of records"),
    }
    assert (usage.input_tokens, usage.output_tokens) == ((100, 10) if lost else (200, 20))
    first, second = (request["messages"] for request in endpoint.chat_requests)
    assert second[: len(first)] == first
    assert "could not be used" in second[-1]["content"]
    assert name != "a wrong type" or "stars: Input should be a valid integer" in second[-1]["content"]


@flawed
async def test_a_flaw_that_stays_is_a_typed_failure_without_contents(
    endpoint: LoopbackModel, method: Method, name: str, answer: Answer
) -> None:
    endpoint.answer("Note", answer)

    with pytest.raises(ModelOutputError) as caught:
        await ask(endpoint.base_url, method)

    assert len(endpoint.chat_requests) == 2
    check_quotes_nothing(caught.value)


WHOLE = GOOD.model_dump_json()
ANOTHER = json.dumps({"text": "A draft.", "stars": 1})
WRAPPED = {
    "thoughts": f'<think>{ANOTHER} or better three stars: {{"text": </think>{WHOLE}',
    "thoughts whose beginning the template holds": f"Hm, {ANOTHER}. Better three.\n</think>\n\n{WHOLE}",
    "a code fence": f"```json\n{WHOLE}\n```",
    "words around it": f"Here is the note [as asked] for {{you}}:\n{WHOLE}\nShall I {{go on}}?",
    "a trailing object": f'{WHOLE}\n{{"done": true}}',
    "a trailing object with a part of the fields": f'{WHOLE} {{"stars": 5}}',
    "an earlier draft": f"{ANOTHER}\n\nOr better:\n{WHOLE}",
    "half of an emoji": WHOLE.replace("swims.", "swims.\\ud83d"),
    "a broken line": WHOLE.replace("Mara swims.", "Mara\nswims."),
    "an object around it": json.dumps({"answer": GOOD.model_dump()}),
    "a call as text": json.dumps({"name": "Note", "arguments": WHOLE}),
    "JSON in JSON": json.dumps(WHOLE),
    "a field too many": json.dumps({**GOOD.model_dump(), SECRET: 1}),
    "a number as a text": json.dumps({"text": "Mara swims.", "stars": " 3 "}),
    "the end of thoughts in a text": json.dumps({"text": "Mara </think> swims.", "stars": 3}),
}


def read_as_good(note: Note) -> bool:
    words = re.findall(r"Mara|swims", note.text)
    return (words, note.stars) == (["Mara", "swims"], 3)


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "text", "a text in place of a call"])
async def test_a_good_answer_is_read_out_of_any_wrapping(endpoint: LoopbackModel, method: str) -> None:
    asked: Any = "function_calling" if method == "a text in place of a call" else method
    answers: dict[str, Any] = {
        **WRAPPED,
        **({"a call's object": GOOD.model_dump()} if method == "function_calling" else {}),
    }
    for name, text in answers.items():
        endpoint.answer("Note", tool_call(text) if method == "function_calling" else text)
        note, usage = await ask(endpoint.base_url, asked)
        assert (read_as_good(note), usage.calls) == (True, 1), name


async def test_a_text_of_many_brackets_is_refused_in_bounded_time(endpoint: LoopbackModel) -> None:
    letters = random.Random(1)
    nested = "".join(f'{{"{letters.randrange(10**9)}": [' for _ in range(3000))
    endpoint.answer("Note", nested, "".join(f"{{{letters.randrange(10**9)} " for _ in range(5000)))
    began = time.process_time()
    with pytest.raises(ModelOutputError, match="broken JSON"):
        await ask(endpoint.base_url)
    assert time.process_time() - began < 5


async def test_schema_is_strict_calls_are_bounded_and_missing_usage_is_counted(
    endpoint: LoopbackModel,
) -> None:
    endpoint.answer("Note", Reply(content=GOOD.model_dump_json(), usage=None))

    _, usage = await ask(endpoint.base_url)

    (request,) = endpoint.chat_requests
    assert request["response_format"]["json_schema"]["strict"] is True
    assert request["response_format"]["json_schema"]["schema"]["additionalProperties"] is False
    assert (request["temperature"], request["max_completion_tokens"]) == (0, 16_384)
    assert (usage.calls, usage.unreported_calls, usage.input_tokens, usage.output_tokens) == (1, 1, 0, 0)


async def test_a_model_without_structured_output_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="FakeListChatModel has no structured output"):
        await run_step(NOTE, ModelOverrides(), Always(FakeListChatModel(responses=["x"])))


# -- no answer over the wire


AWAY, REFUSED = "could not be used", "refused this request"


@pytest.mark.parametrize(
    ("answer", "requests", "verdict", "kind"),
    [
        (429, 3, AWAY, r"rate limit \(HTTP 429, scripted_code\)"),
        (500, 3, AWAY, r"server error \(HTTP 500"),
        (401, 1, AWAY, r"key refused \(HTTP 401"),
        (403, 1, AWAY, r"permission denied \(HTTP 403"),
        (404, 1, AWAY, r"unknown model or path \(HTTP 404"),
        (409, 3, AWAY, r"server error \(HTTP 409"),
        (b"<html>a proxy's page</html>", 1, AWAY, "unreadable answer"),
        (400, 1, REFUSED, r"request refused \(HTTP 400.*MNEMIC_STRUCTURED_OUTPUT"),
        (413, 1, REFUSED, r"(input too long|request refused) \(HTTP 413.*MNEMIC_STRUCTURED_OUTPUT"),
        (422, 1, REFUSED, r"request refused \(HTTP 422.*MNEMIC_STRUCTURED_OUTPUT"),
    ],
)
async def test_a_failed_request_names_its_kind_and_is_not_repaired(
    endpoint: LoopbackModel, answer: Answer, requests: int, verdict: str, kind: str
) -> None:
    endpoint.answer("Note", answer)

    with pytest.raises(ModelError, match=f"^openai:m {verdict} for note: {kind}") as caught:
        await ask(endpoint.base_url)

    assert isinstance(caught.value, ModelOutputError) is (verdict == REFUSED)
    assert len(endpoint.chat_requests) == requests
    check_quotes_nothing(caught.value)


async def test_no_server_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST_PAUSE_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://ana:secret@127.0.0.1:{port}/v1?key=secret"
    with pytest.raises(ModelError, match=rf"no connection: .* MNEMIC_BASE_URL, which is http://127.0.0.1:{port}/v1;"):
        await ask(url)


# -- other providers raise errors of their own


class BrassError(Exception):
    """A provider's own error, which knows nothing of langchain-core."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(f"400: {SECRET}")
        vars(self).update(attributes)


class BrassChat(BaseChatModel):
    """A provider's chat model, as its package would bring it: asked by a tool call."""

    behave: Callable[[], AIMessage]

    @property
    def _llm_type(self) -> str:
        return "brass"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.behave())])


async def failed(error: Exception) -> ModelError:
    """What becomes of this error of a provider."""

    def behave() -> AIMessage:
        raise error

    with pytest.raises(ModelError) as caught:
        await run_step(NOTE, ModelOverrides(), Always(BrassChat(behave=behave)))
    check_quotes_nothing(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BrassError(), "BrassError"),
        (BrassError(status_code=529, code="overloaded"), r"server error \(HTTP 529, overloaded\)"),
        (BrassError(status_code=451), r"request refused \(HTTP 451\)"),
        (BrassError(response=SimpleNamespace(status_code=401)), r"key refused \(HTTP 401\)"),
        (BrassError(code=SECRET), "BrassError"),
        (type("BrassTimeoutError", (BrassError,), {})(), "timeout"),
        (type("BrassConnectError", (BrassError,), {})(), "no connection"),
        (ModelRateLimitError(SECRET), "rate limit"),
        (RuntimeError(SECRET), "RuntimeError"),
        (ConnectionResetError(SECRET), "no connection"),
    ],
)
async def test_any_error_of_a_provider_is_a_typed_failure_without_contents(error: Exception, kind: str) -> None:
    raised = await failed(error)
    assert type(raised) is ModelError
    assert re.match(f"provider:m could not be used for note: {kind}(: [^;]+)?; the", str(raised))


@pytest.mark.parametrize(
    "error",
    [
        ContextOverflowError(SECRET),
        ModelInvalidRequestError(SECRET),
        *(BrassError(status_code=400, code=code) for code in ("content_filter", "context_length_exceeded", 400)),
        BrassError(status_code=413),
        BrassError(response=SimpleNamespace(status_code=422)),
    ],
)
async def test_call_that_will_be_refused_again_counts_as_an_unusable_answer(error: Exception) -> None:
    assert type(await failed(error)) is ModelOutputError


def called(arguments: Any) -> dict[str, Any]:
    return {"name": "Note", "args": arguments, "id": "1", "type": "tool_call"}


OTHERS_ANSWERS = {
    "a call": AIMessage("", tool_calls=[called(GOOD.model_dump())]),
    "the second of two calls": AIMessage("", tool_calls=[called({"note": 1}), called(GOOD.model_dump())]),
    "a call that its package could not read": AIMessage(
        "", invalid_tool_calls=[{"name": "Note", "args": f"```{WHOLE}```", "id": "1", "error": None}]
    ),
    "a text beside a broken call": AIMessage(
        WHOLE, invalid_tool_calls=[{"name": "Note", "args": '{"text": "Ma', "id": "1", "error": None}]
    ),
    "blocks": AIMessage([{"type": "thinking", "thinking": ANOTHER}, WHOLE[:9], {"type": "text", "text": WHOLE[9:]}]),
}  # fmt: skip


@pytest.mark.parametrize("answer", OTHERS_ANSWERS.values(), ids=OTHERS_ANSWERS)
async def test_a_good_answer_of_another_provider_is_read(answer: AIMessage) -> None:
    result = await run_step(NOTE, ModelOverrides(), Always(BrassChat(behave=lambda: answer)))

    assert (result.output, result.usage.calls) == (GOOD, 1)
