"""What each provider's own package sends: a step in its form, tools, a stream; held to the provider's own types.

The packages are not installed with the others: `pip install langchain-anthropic langchain-google-genai
langchain-mistralai langchain-ollama`. What is missing is skipped.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from pydantic import TypeAdapter

from mnemic.models.chat import ChatModels
from mnemic.models.structured import run_step
from mnemic.models.tool_calls import run_answer
from mnemic.models.trial import look_up
from mnemic.state.errors import ModelError
from mnemic.state.model_settings import StructuredOutput
from mnemic.state.settings import Settings
from tests.models.test_structured import NOTE, SECRET, ModelOverrides

MOST = 4321


@dataclass(frozen=True)
class Provider:
    """How a provider is asked."""

    model: str
    package: str
    #: Where temperature and the bound on tokens stand in the body, and what the bound is called.
    options: str | None
    bound: str
    #: Where the schema of a step stands.
    schema: str
    #: Variables of the environment; `{url}` is the server's.
    environment: dict[str, str]
    arguments: dict[str, Any] = field(default_factory=dict)
    #: The module and name of the provider's own type of a request.
    type: tuple[str, str] | None = None
    #: None: this model takes none, by its profile.
    temperature: float | None = 0

    def settings(self, url: str, method: StructuredOutput) -> Settings:
        own = {name: value.format(url=url) for name, value in self.arguments.items()}
        return Settings(
            fast_model=self.model,
            agent_model=self.model,
            structured_output=method,
            max_output_tokens=MOST,
            model_arguments={self.model: own},
            base_url=f"{url}/v1" if self.model.startswith("openai:") else None,
        )


_OPENAI = ("openai.types.chat.completion_create_params", "CompletionCreateParamsNonStreaming")
PROVIDERS = {
    "openai": Provider(
        "openai:gpt-4.1", "langchain_openai", None, "max_completion_tokens", "response_format", {}, type=_OPENAI
    ),
    "azure": Provider(
        "azure_openai:gpt-4.1",
        "langchain_openai",
        None,
        "max_completion_tokens",
        "response_format",
        {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "{url}", "OPENAI_API_VERSION": "2025-01-01-preview"},
        type=_OPENAI,
    ),
    "anthropic": Provider(
        "anthropic:claude-sonnet-5",
        "langchain_anthropic",
        None,
        "max_tokens",
        "output_config",
        {"ANTHROPIC_API_KEY": "k"},
        {"base_url": "{url}"},
        ("anthropic.types.message_create_params", "MessageCreateParamsNonStreaming"),
        temperature=None,
    ),
    "gemini": Provider(
        "google_genai:gemini-2.5-flash",
        "langchain_google_genai",
        "generationConfig",
        "maxOutputTokens",
        "responseJsonSchema",
        {"GOOGLE_API_KEY": "k"},
        {"base_url": "{url}"},
        ("google.genai.types", "GenerationConfig"),
    ),
    "mistral": Provider(
        "mistralai:mistral-small-latest",
        "langchain_mistralai",
        None,
        "max_tokens",
        "response_format",
        {"MISTRAL_API_KEY": "k"},
        {"base_url": "{url}/v1"},
    ),
    "ollama": Provider(
        "ollama:qwen3",
        "langchain_ollama",
        "options",
        "num_predict",
        "format",
        {},
        {"base_url": "{url}"},
        ("ollama._types", "ChatRequest"),
    ),
}


@pytest.fixture
def captured() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that refuses every key, and the bodies that it was sent."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = json.dumps(
                {"type": "error", "error": {"type": "authentication_error", "message": SECRET}}
            ).encode()
            self.send_response(401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of http.server
            """Silence."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, captured: tuple[str, Any]) -> Provider:
    wanted = PROVIDERS[request.param]
    if find_spec(wanted.package) is None:
        pytest.skip(f"not installed: {wanted.package}")
    for name, value in wanted.environment.items():
        monkeypatch.setenv(name, value.format(url=captured[0]))
    return wanted


async def refused(work: Any) -> str:
    with pytest.raises(ModelError) as caught:
        await work
    return str(caught.value)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["json_schema", "text"])
async def test_step_is_sent_in_the_provider_format_and_a_refused_key_is_reported(
    provider: Provider, captured: tuple[str, list[dict[str, Any]]], method: StructuredOutput
) -> None:
    url, bodies = captured
    told = await refused(run_step(NOTE, ModelOverrides(), ChatModels(provider.settings(url, method))))

    assert "key refused" in told
    assert SECRET not in told
    (body,) = bodies
    options = body[provider.options] if provider.options else body
    assert (options.get("temperature"), options[provider.bound]) == (provider.temperature, MOST)
    place = options if provider.schema in options else body
    assert (provider.schema in place) == (method == "json_schema")
    assert ("stars" in json.dumps(place.get(provider.schema, ""))) == (method == "json_schema")
    check_type(provider, body)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_tools_are_offered_to_the_agent_and_no_temperature_is_set(
    provider: Provider, captured: tuple[str, list[dict[str, Any]]]
) -> None:
    url, bodies = captured
    models = ChatModels(provider.settings(url, "json_schema"))
    told = await refused(run_answer([HumanMessage("What of the boats?")], [look_up], models))

    assert "key refused" in told
    (body,) = bodies
    assert "look_up" in json.dumps(body["tools"])
    check_type(provider, body)


def check_type(provider: Provider, body: dict[str, Any]) -> None:
    """Holds a body to the provider's own type of it; of Gemini that part of it which the package has a type of."""
    if provider.type is None:
        return
    module, name = provider.type
    kind = getattr(import_module(module), name)
    part = body["generationConfig"] if provider.package == "langchain_google_genai" else body
    TypeAdapter(kind).validate_python(part)
    if annotations := getattr(kind, "__required_keys__", frozenset()) | getattr(kind, "__optional_keys__", frozenset()):
        assert set(part) <= annotations
