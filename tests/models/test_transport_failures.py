"""What a user reads when no usable answer comes over the wire."""

import json
import socket
import threading
import traceback

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from mnemic.models.structured import structured
from mnemic.state.errors import ModelError, ModelOutputError
from mnemic.state.usage import Usage
from tests.support import loopback
from tests.support.loopback import Answer, LoopbackModel, Reply

SECRET = "Mara's diagnosis"


class Note(BaseModel):
    """A note."""

    text: str


async def ask(base_url: str, *, retries: int = 0, time_limit: float = 30) -> Note:
    model = ChatOpenAI(
        model="m",
        base_url=base_url,
        api_key=SecretStr("key"),
        max_retries=retries,
        timeout=time_limit,
        temperature=None,
    )
    spent = Usage(step="note", model="openai:m")
    note, _ = await structured(model, Note, [HumanMessage(SECRET)], method="json_schema", spent=spent)
    return note


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

        with pytest.raises(ModelError, match=f"^openai:m could not be used for note: .*{kind}") as caught:
            await ask(server.base_url)

    assert not isinstance(caught.value, ModelOutputError)
    assert len(server.chat_requests) == 1
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "scripted failure" not in "".join(traceback.format_exception(caught.value))


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
            await ask(server.base_url)

    assert len(server.chat_requests) == 1
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "scripted failure" not in "".join(traceback.format_exception(caught.value))


async def test_too_long_for_a_server_that_has_a_number_for_a_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # as vLLM says it: neither the code nor the words are those that OpenAI's client knows
    problem = "This model's maximum context length is 8192 tokens. However, your request has 20000 input tokens."
    body = json.dumps({"error": {"message": problem, "type": "BadRequestError", "param": None, "code": 400}}).encode()
    monkeypatch.setattr(loopback, "_error", lambda status: (status, "application/json", body))
    with LoopbackModel() as server:
        server.answer("Note", 400)

        with pytest.raises(ModelOutputError, match=r"request refused \(HTTP 400\)"):
            await ask(server.base_url)


async def test_a_rate_limit_that_passes_is_not_noticed() -> None:
    with LoopbackModel() as server:
        server.answer("Note", 429, 503, Note(text="Mara swims."))

        assert await ask(server.base_url, retries=2) == Note(text="Mara swims.")


async def test_a_slow_model_is_a_timeout() -> None:
    late = threading.Event()
    with LoopbackModel() as server:
        server.answer("Note", Reply(content='{"text": "x"}', after=late))
        try:
            with pytest.raises(ModelError, match="timeout"):
                await ask(server.base_url, time_limit=0.1)
        finally:
            late.set()


async def test_no_server_is_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(ModelError, match="no connection"):
        await ask(f"http://127.0.0.1:{port}/v1")
