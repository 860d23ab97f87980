"""No setting that can hold a credential is printed: by a representation, an error, a log, a trace or a command."""

import json
import logging
import pprint
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import HumanMessage

from mnemic.models import chat
from mnemic.models.chat import ChatModels
from mnemic.models.embedders.endpoint import OpenAIEmbedder
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConfigurationError, MnemicError
from mnemic.state.settings import Settings
from tests.support.commands import invoke
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_resources
from tests.support.server import Clone

SECRET = "Quittenmus-2026-Zinnober"
DSN = f"postgresql://mnemic:{SECRET}@127.0.0.1:1/mnemic"
HEADERS = {"default_headers": {"X-Gateway-Key": SECRET}, "openai_proxy": f"http://ana:{SECRET}@127.0.0.1:1"}
#: Every setting that can hold a credential, each with one.
CREDENTIALS: dict[str, Any] = {
    "base_url": f"http://ana:{SECRET}@127.0.0.1:1/v1?key={SECRET}",
    "api_key": SECRET,
    "database_url": DSN,
    "admin_url": DSN,
    "migration_url": DSN,
    "anchor_key": SECRET,
    "server_key": SECRET,
    "model_arguments": {"openai:m": {**HEADERS, "api_key": SECRET}},
}
#: Such values that are wrong.
UNUSABLE: dict[str, Any] = {
    "base_url": [f"ftp://ana:{SECRET}@host", f"http://ana:p@host:{SECRET}", f"http://[{SECRET}", {"url": SECRET}],
    "api_key": [[SECRET], {"key": SECRET}],
    "database_url": [[SECRET]],
    "anchor_key": [SECRET[:8], [SECRET]],
    "server_key": [SECRET[:8]],
    "model_arguments": [SECRET, {"openai:m": SECRET}, [SECRET], f'{{"openai:m": {SECRET}'],
    "model_prices": [{"openai:m": SECRET}, {"openai:m": {"input": SECRET}}],
    "pool_size": [SECRET],
}


def everything_shown_of(value: Any) -> str:
    """Return all usual texts of an object: those of print, logs, debuggers and JSON."""
    texts = [repr(value), str(value), f"{value}", pprint.pformat(value), str([value]), str({"value": value})]
    if isinstance(value, Settings):
        texts += [str(value.model_dump()), value.model_dump_json(), str(dict(value)), str(vars(value))]
    return "\n".join(texts)


def test_no_text_of_the_settings_has_a_credential() -> None:
    settings = Settings(**CREDENTIALS)
    for made in (settings, settings.overridden({"rag": False}), settings.model_copy()):
        assert SECRET not in everything_shown_of(made)
    assert settings.overridden({"rag": False}).model_arguments.get_secret_value() == CREDENTIALS["model_arguments"]


def test_control_settings_that_are_plain_text_are_seen() -> None:
    assert SECRET in everything_shown_of(Settings(persona=SECRET))


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_setting_is_read_from_the_environment_as_from_an_argument(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = CREDENTIALS[name]
    monkeypatch.setenv(f"MNEMIC_{name.upper()}", value if isinstance(value, str) else json.dumps(value))
    assert getattr(Settings(), name).get_secret_value() == value


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in UNUSABLE.items() for value in values])
def test_an_unusable_value_is_refused_by_the_name_of_its_setting(
    name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match=name) as refused:
        Settings(**{name: value})
    assert SECRET[:8] not in everything_shown_of(refused.value)
    if isinstance(value, str):
        monkeypatch.setenv(f"MNEMIC_{name.upper()}", value)
        with pytest.raises(ConfigurationError, match=name.upper()) as refused:
            Settings()
        assert SECRET[:8] not in everything_shown_of(refused.value)


async def test_no_text_of_the_opened_service_has_a_credential(clean_db: Clone, model: LoopbackModel) -> None:
    port = model.base_url.partition("127.0.0.1:")[2]
    own = {name: value for name, value in CREDENTIALS.items() if name != "database_url"}
    own["base_url"] = f"http://ana:{SECRET}@127.0.0.1:{port}"
    own["model_arguments"] = {"openai:gpt-fast": {"default_headers": HEADERS["default_headers"]}}
    async with scripted_resources(clean_db, model, **own) as resources:
        call = await resources.models.for_call("fast", "extract_facts")
        parts = [*vars(resources).values(), call, call.model, call.endpoint, resources.embedder]
        shown: list[Any] = [Mnemic(resources), resources, *parts]
        assert [each for each in shown if SECRET in everything_shown_of(each)] == []
        assert SECRET not in json.dumps(dumpd(call.model))  # a tracer is given that


def test_control_a_model_of_the_providers_class_shows_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_masked_class", lambda kind: kind)
    arguments = {"openai:m": {"default_headers": HEADERS["default_headers"]}}
    model = ChatModels(Settings(api_key="k", fast_model="openai:m", model_arguments=arguments)).get("fast")
    assert SECRET in everything_shown_of(model)
    assert SECRET in json.dumps(dumpd(model))


@contextmanager
def refusing() -> Iterator[tuple[int, list[str]]]:
    """A server that answers 401 with what it was sent; its port, and the Authorization headers."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers["Authorization"])
            body = json.dumps({"error": {"message": f"no entry with {SECRET}"}}).encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def ask(port: int) -> list[str]:
    """Ask a model and an embedder at an address with a login; their errors."""
    settings = Settings(base_url=f"http://ana:{SECRET}@127.0.0.1:{port}/v1", fast_model="openai:m", embedder="openai:e")
    model = ChatModels(settings).get("fast")
    assert model is not None
    with pytest.raises(Exception, match="401"):
        await model.ainvoke([HumanMessage("Hello.")])
    with pytest.raises(MnemicError) as refused:
        await OpenAIEmbedder("e", settings).embed(["Hello."])
    return [everything_shown_of(refused.value)]


async def test_the_login_of_an_address_is_sent_and_neither_logged_nor_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with refusing() as (port, seen):
        errors = await ask(port)
    assert len(seen) == 2
    assert all(header.startswith("Basic ") for header in seen)
    assert SECRET not in "\n".join([caplog.text, *errors])
    assert f"127.0.0.1:{port}/v1" in caplog.text + errors[0]


async def test_control_an_address_with_its_login_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "login_of", lambda _: None)
    caplog.set_level(logging.INFO)
    with refusing() as (port, _):
        await ask(port)
    assert SECRET in caplog.text


@pytest.mark.parametrize(
    "words", [("doctor",), ("doctor", "--models"), ("memories", "--agent", "a", "--user", "u"), ("db", "migrate")]
)
def test_no_command_prints_a_credential(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(f"MNEMIC_{name.upper()}", value if isinstance(value, str) else json.dumps(value))
    monkeypatch.setenv("MNEMIC_FAST_MODEL", "openai:m")
    monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "1")
    result = invoke(*words)
    assert result.exit_code != 0
    assert result.output.strip()
    assert SECRET not in result.output
