"""Make the chat models that the settings name or the host passes, each at its first use, and describe their calls."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr, ValidationError

from mnemic.models.failures import Endpoint, shown_address
from mnemic.state.checking import nearest
from mnemic.state.errors import ConfigurationError
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import OFFLINE, Tier
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.language_models import BaseChatModel

OFFLINE_LABEL = "offline rules"
#: Shorter arguments, such as `low`, are parts of common words and no secrets.
_MIN_MASKED_CHARS = 5
#: Arguments of a model whose tokens no host may show while its graph streams. It does not stream either: in a stream
#: langchain-core completes a tool call that breaks off (`parse_partial_json`), and half a text would pass for a whole.
HIDDEN: Mapping[str, Any] = MappingProxyType({"tags": ["nostream"], "disable_streaming": True})


class PendingRequest(NamedTuple):
    """A request to a model that has no answer yet."""

    step: str
    model: str
    #: When it was sent, by `time.monotonic`.
    since: float


@dataclass(frozen=True)
class Call:
    """One call of a tier's model for a step."""

    #: None if the offline rules do its work. A host's own model may show its key.
    model: "BaseChatModel | None" = field(repr=False)
    #: The usage that its requests add to.
    spent: Usage
    endpoint: Endpoint
    #: Seconds for an answer, from its first request to its last token.
    deadline: float
    _under_way: dict[object, PendingRequest] = field(default_factory=dict)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """List the request among those under way until the block ends."""
        token = object()
        self._under_way[token] = PendingRequest(self.spent.step, self.spent.model, time.monotonic())
        try:
            yield
        finally:
            del self._under_way[token]


class ChatModels:
    """The models of the tiers `fast`, `slow` and `agent`, each made at its first use.

    Args:
        settings: their names and limits.
        overrides: models of the host, by tier and by their name in the settings.
    """

    def __init__(
        self, settings: Settings, overrides: "Mapping[tuple[Tier, str], BaseChatModel]" = MappingProxyType({})
    ) -> None:
        self.settings = settings
        self._overrides = overrides
        self._made: dict[tuple[Tier, str, bool], BaseChatModel] = {}
        self._making = threading.Lock()
        self._under_way: dict[object, PendingRequest] = {}

    def with_settings(self, settings: Settings) -> Self:
        """Return the models of other settings, such as those of one agent; models already made are shared.

        Only the names of models may differ.
        """
        other = copy(self)
        other.settings = settings
        return other

    def get(self, tier: Tier, *, shown: bool = False) -> "BaseChatModel | None":
        """Return the model of a tier; None if the offline rules do its work.

        The first call reads files for a second or two: a coroutine must call it in a thread.

        Args:
            tier: `fast`, `slow` or `agent`.
            shown: whether a host that streams its graph shows the tokens of this model.

        Raises:
            ConfigurationError: if the provider is unknown, not installed, or lacks a key.
        """
        name = self.settings.model_for(tier)
        if name == OFFLINE:
            return None
        with self._making:
            if (tier, name, shown) not in self._made:
                model = self._overrides.get((tier, name))
                if model is None:
                    model = self._make(tier, name, shown)
                self._made[tier, name, shown] = model if shown else _hidden(model)
            return self._made[tier, name, shown]

    def require_packages(self) -> None:
        """Raise if the provider of a configured model is unknown or not installed, without importing it.

        Raises:
            ConfigurationError: if it is; the message names the setting and the package.
        """
        for tier in get_args(Tier):
            name = self.settings.model_for(tier)
            if name != OFFLINE and (tier, name) not in self._overrides:
                require_provider(_setting(tier), name)

    async def for_call(self, tier: Tier, step: str, *, shown: bool = False) -> Call:
        """Return the model of a tier, made off the event loop, with usage, endpoint and deadline of this call."""
        name = self.settings.model_for(tier)
        if name == OFFLINE or (tier, name, shown) in self._made:
            model = self.get(tier, shown=shown)
        else:
            model = await in_thread(self.get, tier, shown=shown)
        spent = Usage(step=step, model=name, tier=tier)
        return Call(model, spent, self._endpoint(tier, name), self.settings.answer_seconds, self._under_way)

    def under_way(self) -> list[PendingRequest]:
        """Return the requests that have no answer yet, the oldest first."""
        return [*self._under_way.values()]

    def describe(self) -> str:
        """Name the models that form memories: `offline rules`, or the fast and the slow model."""
        fast, slow = _label(self.settings.model_for("fast")), _label(self.settings.model_for("slow"))
        if fast == slow:
            return fast
        return f"{fast} / {slow}"

    def _endpoint(self, tier: Tier, name: str) -> Endpoint:
        setting = _setting(tier)
        if tier == "agent":
            setting += ", or the agent's own agent_model"
        address = shown_address(self.settings.base_url) if name.startswith("openai:") else None
        return Endpoint(name, setting, address)

    def _make(self, tier: Tier, name: str, shown: bool) -> "BaseChatModel":
        # Imported here: it takes a second that the offline rules never need.
        from langchain.chat_models import init_chat_model

        setting, settings = _setting(tier), self.settings
        provider, _, model_name = name.partition(":")
        arguments = _arguments(provider, settings)
        if provider == "openai":
            arguments |= openai_endpoint(settings, setting) | _login_clients(settings.base_url)
        arguments |= settings.model_arguments.get_secret_value().get(name, {})
        try:
            model: BaseChatModel = init_chat_model(model_name, model_provider=provider, **arguments)
            takes_temperature = (model.profile or {}).get("temperature", True)
            if not shown and takes_temperature and "temperature" not in arguments:
                # the same conversation is to make the same memories
                model = init_chat_model(model_name, model_provider=provider, temperature=0, **arguments)
        except ImportError as error:
            raise ConfigurationError(f"{setting} is {name!r}, and its package is missing: {error}") from None
        except ValidationError as error:
            problems = error.errors(include_input=False, include_url=False, include_context=False)
            reason = _masked("; ".join(dict.fromkeys(str(problem["msg"]) for problem in problems)), arguments)
            raise ConfigurationError(f"{setting} is {name!r}, which cannot be used: {reason}") from None
        except Exception as error:  # noqa: BLE001 - every provider has errors of its own, such as for missing keys
            reason = _masked(str(error).partition("\n")[0], arguments) or type(error).__name__
            raise ConfigurationError(f"{setting} is {name!r}, which cannot be used: {reason}") from None
        model.__class__ = _masked_class(type(model))
        return model


def _label(name: str) -> str:
    if name == OFFLINE:
        return OFFLINE_LABEL
    return name


@cache
def _masked_class(kind: type["BaseChatModel"]) -> type["BaseChatModel"]:
    """Return a subclass whose text and trace have the model's name alone: other fields may hold credentials."""

    def shown(model: Any) -> list[tuple[str, str]]:
        return [("model", name_of(model).partition(":")[2])]

    def traced(model: Any) -> dict[str, Any]:
        return {**kind.to_json(model), "kwargs": dict(shown(model))}

    names = {"__module__": kind.__module__, "__repr_args__": shown, "to_json": traced}
    metaclass: Any = type(kind)
    subclass: type[BaseChatModel] = metaclass(kind.__name__, (kind,), names)
    return subclass


def _masked(text: str, arguments: object) -> str:
    """Return the message of a provider's package without the values of the model's arguments, which may be secret."""
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, SecretStr):
            waiting.append(value.get_secret_value())
        elif isinstance(value, str) and len(value) >= _MIN_MASKED_CHARS:
            text = text.replace(value, "***")
    return text


def name_of(model: object) -> str:
    """Name a model of the host, as settings, usage and messages show it, such as `ChatXAI:grok-4`."""
    for attribute in ("model_name", "model", "model_id"):
        if name := getattr(model, attribute, None):
            return f"{type(model).__name__}:{name}"
    return f"{type(model).__name__}:own"


def _setting(tier: Tier) -> str:
    return f"MNEMIC_{tier.upper()}_MODEL"


def require_provider(setting: str, name: str) -> None:
    """Raise if the provider of a model is missing in its name, unknown to LangChain, or not installed.

    Raises:
        ConfigurationError: if it is; the message has this name of the setting.
    """
    if name == OFFLINE:
        return
    if not all(name.partition(":")):
        raise ConfigurationError(f"{setting} must be provider:model, such as openai:gpt-5-mini, or offline")
    from langchain.chat_models import base

    # LangChain's own list, which has no public name; without it a missing package shows at the first request
    providers: Mapping[str, tuple[Any, ...]] = getattr(base, "_BUILTIN_PROVIDERS", {})
    provider = name.partition(":")[0].replace("-", "_").lower()
    if providers and provider not in providers:
        raise ConfigurationError(
            f"{setting} names a provider that LangChain does not know{nearest(provider, providers)}"
        )
    if not providers:
        return
    package = str(providers[provider][0]).partition(".")[0]
    if find_spec(package) is None:
        raise ConfigurationError(
            f"the package of {setting}'s provider {provider} is missing: run `pip install {package.replace('_', '-')}`"
        )


def _hidden(model: "BaseChatModel") -> "BaseChatModel":
    return model.model_copy(update={**HIDDEN, "tags": [*(model.tags or ()), *HIDDEN.get("tags", ())] or None})


def _arguments(provider: str, settings: Settings) -> dict[str, Any]:
    """Return the arguments that every model gets, under the names of its provider's package."""
    timeout, max_tokens = settings.model_timeout_seconds, settings.max_output_tokens
    if provider == "ollama":
        return {"client_kwargs": {"timeout": timeout}, "num_predict": max_tokens}
    arguments = {"timeout": timeout, "max_retries": 0, "max_tokens": max_tokens}
    if provider == "openai":
        # without `stream_usage` the client requests no usage of a streamed answer from a custom endpoint
        arguments["stream_usage"] = True
    return arguments


def openai_endpoint(settings: Settings, setting: str) -> dict[str, Any]:
    """Return `api_key` and, if one is set, `base_url` for a client of langchain-openai.

    Raises:
        ConfigurationError: if neither a key nor a base URL is set; the message names the setting that needs them.
    """
    if not settings.has_endpoint:
        raise ConfigurationError(
            f"{setting} names an OpenAI model, and there is no key: set OPENAI_API_KEY, "
            "or MNEMIC_BASE_URL for an OpenAI-compatible server"
        )
    # clients insist on a key; a server of one's own takes any
    arguments: dict[str, Any] = {"api_key": settings.api_key or SecretStr("none")}
    if settings.base_url:
        url = settings.base_url.get_secret_value()
        if login_of(settings.base_url):
            parts = urlsplit(url)  # httpx logs addresses as they are
            url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        arguments["base_url"] = url
    return arguments


def login_of(url: SecretStr | None) -> tuple[str, str] | None:
    """Return name and password of an address, or None if it has none."""
    if url is None:
        return None
    parts = urlsplit(url.get_secret_value())
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")


def _login_clients(url: SecretStr | None) -> dict[str, Any]:
    """Return the HTTP clients of a chat model that send the login of an address, or nothing if it has none."""
    login = login_of(url)
    if login is None:
        return {}
    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

    return {
        "http_client": DefaultHttpxClient(auth=login),
        "http_async_client": DefaultAsyncHttpxClient(auth=login),
    }


async def offline(module: str, name: str) -> Any:
    """Import a replacement of a model at its first use, which saves 0.1 s if a model is configured."""
    return getattr(await in_thread(import_module, f"mnemic.models.offline.{module}"), name)
