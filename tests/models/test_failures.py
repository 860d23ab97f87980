"""What a user reads when no usable answer comes: a typed failure that names its kind and quotes nothing."""

import asyncio
import json
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError, ModelRateLimitError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from mnemic.models.chat import ChatModels
from mnemic.models.structured import structured
from mnemic.models.tool_calls import tool_turn
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelError, ModelOutputError
from mnemic.state.kinds import Usage
from mnemic.state.settings import Tier
from tests.support import loopback
from tests.support.loopback import Answer, LoopbackModel, Reply
from tests.support.scripted import scripted_model, scripted_resources, turns
from tests.support.server import Clone
from tests.support.worlds import identity

SECRET = "Mara's diagnosis"


class Note(BaseModel):
    """A note."""

    text: str


async def ask(model: BaseChatModel, method: Literal["json_schema", "function_calling"] = "function_calling") -> Note:
    spent = Usage(step="note", model="provider:m")
    return (await structured(model, Note, [HumanMessage(SECRET)], method=method, spent=spent)).output


async def ask_server(base_url: str, *, retries: int = 0, time_limit: float = 30) -> Note:
    model = ChatOpenAI(
        model="m",
        base_url=base_url,
        api_key=SecretStr("key"),
        max_retries=retries,
        timeout=time_limit,
        temperature=None,
    )
    return await ask(model, "json_schema")


def check_quotes_nothing(error: ModelError) -> None:
    assert (error.__cause__, error.__context__) == (None, None)
    written = "".join(traceback.format_exception(error))
    assert SECRET not in written
    assert "scripted failure" not in written


# -- over the wire, by OpenAI's own client


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (429, r"rate limit \(HTTP 429, scripted_code\)"),
        (500, r"server error \(HTTP 500"),
        (503, r"server error \(HTTP 503"),
        (401, r"key refused \(HTTP 401"),
        (403, r"permission denied \(HTTP 403"),
        (404, r"unknown model \(HTTP 404"),
        (409, r"request refused \(HTTP 409"),
        (b"<html>a proxy's page</html>", "not of the protocol"),
    ],
)
async def test_a_failed_request_names_its_kind_and_is_not_repaired(answer: Answer, kind: str) -> None:
    with LoopbackModel() as server:
        server.answer("Note", answer)

        with pytest.raises(ModelError, match=f"^provider:m could not be used for note: .*{kind}") as caught:
            await ask_server(server.base_url)

    assert not isinstance(caught.value, ModelOutputError)
    assert len(server.chat_requests) == 1
    check_quotes_nothing(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "request refused"), (413, "input too long|request refused"), (422, "request refused")]
)
async def test_a_refused_request_is_told_from_a_model_that_is_away(status: int, kind: str) -> None:
    with LoopbackModel() as server:
        server.answer("Note", status)

        with pytest.raises(
            ModelOutputError,
            match=rf"refused this request for note: ({kind}) \(HTTP {status}.*MNEMIC_STRUCTURED_OUTPUT",
        ) as caught:
            await ask_server(server.base_url)

    assert len(server.chat_requests) == 1
    check_quotes_nothing(caught.value)


async def test_too_long_for_a_server_that_has_a_number_for_a_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # as vLLM says it: neither the code nor the words are those that OpenAI's client knows
    problem = "This model's maximum context length is 8192 tokens. However, your request has 20000 input tokens."
    body = json.dumps({"error": {"message": problem, "type": "BadRequestError", "param": None, "code": 400}}).encode()
    monkeypatch.setattr(loopback, "_error", lambda status: (status, "application/json", body))
    with LoopbackModel() as server:
        server.answer("Note", 400)

        with pytest.raises(ModelOutputError, match=r"request refused \(HTTP 400\)"):
            await ask_server(server.base_url)


async def test_a_rate_limit_that_passes_is_not_noticed() -> None:
    with LoopbackModel() as server:
        server.answer("Note", 429, 503, Note(text="Mara swims."))

        assert await ask_server(server.base_url, retries=2) == Note(text="Mara swims.")


async def test_a_slow_model_is_a_timeout() -> None:
    late = threading.Event()
    with LoopbackModel() as server:
        server.answer("Note", Reply(content='{"text": "x"}', after=late))
        try:
            with pytest.raises(ModelError, match="timeout"):
                await ask_server(server.base_url, time_limit=0.1)
        finally:
            late.set()


async def test_no_server_is_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(ModelError, match="no connection"):
        await ask_server(f"http://127.0.0.1:{port}/v1")


# -- other providers raise errors of their own


class BrassError(Exception):
    """A provider's own error, which knows nothing of langchain-core."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(f"400: {SECRET}")
        vars(self).update(attributes)


class BrassTimeoutError(BrassError):
    """Likewise."""


class BrassConnectError(BrassError):
    """Likewise."""


class BrassChat(BaseChatModel):
    """A provider's chat model, as its package would bring it: asked by a tool call."""

    behave: Callable[[], AIMessage]
    waits: bool = False

    @property
    def _llm_type(self) -> str:
        return "brass"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.behave())])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.waits:
            await asyncio.Event().wait()
        return self._generate(messages)


def failing(error: BaseException) -> Callable[[], AIMessage]:
    def behave() -> AIMessage:
        raise error

    return behave


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BrassError(), "BrassError"),
        (BrassError(status_code=429), r"rate limit \(HTTP 429\)"),
        (BrassError(status_code=529, code="overloaded"), r"server error \(HTTP 529, overloaded\)"),
        (BrassError(status_code=451), r"request refused \(HTTP 451\)"),
        (BrassError(response=SimpleNamespace(status_code=401)), r"key refused \(HTTP 401\)"),
        (BrassError(code=SECRET), "BrassError"),
        (BrassTimeoutError(), "timeout"),
        (BrassConnectError(), "no connection"),
        (ModelRateLimitError(SECRET), "rate limit"),
        (RuntimeError(SECRET), "RuntimeError"),
        (ConnectionResetError(SECRET), "no connection"),
    ],
)
async def test_any_error_of_a_provider_is_a_typed_failure_without_contents(error: Exception, kind: str) -> None:
    with pytest.raises(ModelError, match=f"^provider:m could not be used for note: {kind}; the") as caught:
        await ask(BrassChat(behave=failing(error)))

    assert type(caught.value) is ModelError
    check_quotes_nothing(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ContextOverflowError(SECRET),
        BrassError(status_code=400, code="content_filter"),
        BrassError(status_code=400, code="context_length_exceeded"),
        BrassError(status_code=400, code=400),
        BrassError(status_code=413),
        BrassError(response=SimpleNamespace(status_code=422)),
        ModelInvalidRequestError(SECRET),
    ],
)
async def test_what_will_be_refused_again_counts_as_an_answer_that_cannot_be_used(error: Exception) -> None:
    with pytest.raises(ModelOutputError) as caught:
        await ask(BrassChat(behave=failing(error)))

    check_quotes_nothing(caught.value)


async def test_a_good_answer_of_another_provider_is_read() -> None:
    call = {"name": "Note", "args": {"text": "Mara swims."}, "id": "1", "type": "tool_call"}

    assert await ask(BrassChat(behave=lambda: AIMessage("", tool_calls=[call]))) == Note(text="Mara swims.")


async def test_a_turn_of_another_provider_is_read() -> None:
    calls = [{"name": "f", "args": args, "id": "1", "type": "tool_call"} for args in ({"a": 1}, {"a": object()})]
    model = BrassChat(behave=lambda: AIMessage("", tool_calls=calls))

    turn, _ = await tool_turn(model, [HumanMessage(SECRET)], (), (), spent=Usage(step="note", model="provider:m"))

    assert [call.arguments for call in turn.calls] == [{"a": 1}, None]


async def test_a_cancelled_call_stays_cancelled() -> None:
    task = asyncio.create_task(ask(BrassChat(behave=lambda: AIMessage(""), waits=True)))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


class _Brass(ChatModels):
    def get(self, tier: Tier, *, shown: bool = False) -> BaseChatModel:
        return BrassChat(behave=failing(BrassError(status_code=500)))


async def test_an_error_of_another_provider_leaves_the_messages_pending(clean_db: Clone) -> None:
    who = identity("ana", session="s1")
    with scripted_model() as model:
        async with scripted_resources(clean_db, model) as resources:
            failing_memory = Mnemic(replace(resources, models=_Brass(resources.settings)))
            await failing_memory.observe(who, turns("I keep bees"))
            with pytest.raises(ModelError, match="server error"):
                await failing_memory.form(who)

            assert [run["formed"] for run in await Mnemic(resources).form(who)] == [1]
