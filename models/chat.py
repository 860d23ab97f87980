"""The chat models that the settings name or the host gives, made when first needed, and how they are asked."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args

from pydantic import SecretStr, ValidationError

from mnemic.models.failures import Endpoint
from mnemic.state.checking import nearest
from mnemic.state.errors import ConfigurationError
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import OFFLINE, Tier
from mnemic.state.settings import Settings

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.language_models import BaseChatModel

OFFLINE_LABEL = "offline rules"
#: What a model is made with whose tokens no host that streams its graph may show, nor make it stream: a tool call that
#: breaks off is completed silently then (langchain-core's `parse_partial_json`), and half of a text would pass for all.
HIDDEN: Mapping[str, Any] = MappingProxyType({"tags": ["nostream"], "disable_streaming": True})


class UnderWay(NamedTuple):
    """A request to a model that has not been answered yet."""

    step: str
    model: str
    #: When it was sent, by `time.monotonic`.
    since: float


@dataclass(frozen=True)
class Call:
    """A tier's model, asked for a step."""

    #: None where the offline rules do its work.
    model: "BaseChatModel | None"
    #: The record of what its requests will have cost.
    spent: Usage
    endpoint: Endpoint
    #: Seconds for an answer, from the first request for it to its last word.
    deadline: float
    _under_way: dict[object, UnderWay] = field(default_factory=dict)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """The request stands among those under way until the block ends."""
        token = object()
        self._under_way[token] = UnderWay(self.spent.step, self.spent.model, time.monotonic())
        try:
            yield
        finally:
            del self._under_way[token]


class ChatModels:
    """The models of the tiers `fast`, `slow` and `agent`; what settings name is not made before it is needed.

    Args:
        settings: name them.
        given: those that the host has made, each by its tier and the name that it has in the settings.
    """

    def __init__(
        self, settings: Settings, given: "Mapping[tuple[Tier, str], BaseChatModel]" = MappingProxyType({})
    ) -> None:
        self.settings = settings
        self._given = given
        self._made: dict[tuple[Tier, str, bool], BaseChatModel] = {}
        self._making = threading.Lock()
        self._under_way: dict[object, UnderWay] = {}

    def with_settings(self, settings: Settings) -> Self:
        """The models these settings name, such as those of one agent; what either has made both use.

        Of the settings of models only their names may differ.
        """
        other = copy(self)
        other.settings = settings
        return other

    def get(self, tier: Tier, *, shown: bool = False) -> "BaseChatModel | None":
        """The model of a tier; None where the offline rules do its work.

        The first call reads files for a second or two, so that a coroutine makes it in a thread.

        Args:
            tier: which one.
            shown: whether a host that streams its graph shows the words as they come.

        Raises:
            ConfigurationError: the provider is unknown, not installed, or lacks a key.
        """
        name = self.settings.model_for(tier)
        if name == OFFLINE:
            return None
        with self._making:
            if (tier, name, shown) not in self._made:
                given = self._given.get((tier, name))
                self._made[tier, name, shown] = (
                    self._make(tier, name, shown) if given is None else given if shown else _hidden(given)
                )
            return self._made[tier, name, shown]

    def require_packages(self) -> None:
        """Refuse a configured model whose provider is unknown or not installed; nothing of a provider is imported.

        Raises:
            ConfigurationError: with the setting and the package.
        """
        for tier in get_args(Tier):
            name = self.settings.model_for(tier)
            if name != OFFLINE and (tier, name) not in self._given:
                _require_package(_setting(tier), name)

    async def for_call(self, tier: Tier, step: str, *, shown: bool = False) -> Call:
        """As `get`, off the event loop, with all that a request for this step needs besides."""
        name = self.settings.model_for(tier)
        model = await asyncio.to_thread(self.get, tier, shown=shown)
        spent = Usage(step=step, model=name, tier=tier)
        return Call(model, spent, self._endpoint(tier, name), self.settings.answer_seconds, self._under_way)

    def under_way(self) -> list[UnderWay]:
        """The requests that have not been answered yet, the oldest first."""
        return [*self._under_way.values()]

    def describe(self) -> str:
        """What forms the memories: `offline rules`, or the names of the fast and the slow model."""
        names = dict.fromkeys([self.settings.model_for("fast"), self.settings.model_for("slow")])
        return " / ".join(OFFLINE_LABEL if name == OFFLINE else name for name in names)

    def _endpoint(self, tier: Tier, name: str) -> Endpoint:
        own = ", or the agent's own agent_model" if tier == "agent" else ""
        url = self.settings.base_url if name.startswith("openai:") else None
        return Endpoint(name, f"{_setting(tier)}{own}", url)

    def _make(self, tier: Tier, name: str, shown: bool) -> "BaseChatModel":
        # Here and not above: a second of imports that offline use never pays.
        from langchain.chat_models import init_chat_model

        setting, settings = _setting(tier), self.settings
        provider, _, model_name = name.partition(":")
        arguments = _arguments(provider, settings)
        if provider == "openai":
            arguments |= openai_endpoint(settings, setting)
        arguments |= settings.model_arguments.get(name, {})
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
            told = "; ".join(dict.fromkeys(str(problem["msg"]) for problem in problems))
            raise ConfigurationError(f"{setting} is {name!r}, which cannot be used: {told}") from None
        except Exception as error:  # noqa: BLE001 - every provider has errors of its own, such as for missing credentials
            told = str(error).partition("\n")[0] or type(error).__name__
            raise ConfigurationError(f"{setting} is {name!r}, which cannot be used: {told}") from None
        return model if shown else _hidden(model)


def name_of(given: object) -> str:
    """What a model that the host has made is called in settings, usage and messages, such as `ChatXAI:grok-4`."""
    model = next((name for key in ("model_name", "model", "model_id") if (name := getattr(given, key, None))), "own")
    return f"{type(given).__name__}:{model}"


def _setting(tier: Tier) -> str:
    return f"MNEMIC_{tier.upper()}_MODEL"


def _require_package(setting: str, name: str) -> None:
    from langchain.chat_models import base

    # LangChain's own list, which it exports under no public name: without it the first request finds what is missing
    providers: Mapping[str, tuple[Any, ...]] = getattr(base, "_BUILTIN_PROVIDERS", {})
    provider = name.partition(":")[0].replace("-", "_").lower()
    if providers and provider not in providers:
        raise ConfigurationError(
            f"{setting} names a provider that LangChain does not have{nearest(provider, providers)}"
        )
    package = str(providers[provider][0]).partition(".")[0] if providers else ""
    if package and find_spec(package) is None:
        raise ConfigurationError(
            f"the package of {setting}'s provider {provider} is missing: run `pip install {package.replace('_', '-')}`"
        )


def _hidden(model: "BaseChatModel") -> "BaseChatModel":
    return model.model_copy(update={**HIDDEN, "tags": [*(model.tags or ()), *HIDDEN.get("tags", ())] or None})


def _arguments(provider: str, settings: Settings) -> dict[str, Any]:
    """What every model is made with, in the words of its provider's package."""
    timeout, most = settings.model_timeout_seconds, settings.max_output_tokens
    if provider == "ollama":
        return {"client_kwargs": {"timeout": timeout}, "num_predict": most}
    if (
        provider == "openai"
    ):  # of an endpoint of one's own it does not ask for the tokens of a streamed answer by itself
        return {"timeout": timeout, "max_retries": 0, "max_tokens": most, "stream_usage": True}
    return {"timeout": timeout, "max_retries": 0, "max_tokens": most}


def openai_endpoint(settings: Settings, setting: str) -> dict[str, Any]:
    """`api_key` and, where one is set, `base_url` for a client of langchain-openai.

    Raises:
        ConfigurationError: neither a key nor a base URL is set; the message names the setting that needs them.
    """
    if not settings.has_endpoint:
        raise ConfigurationError(
            f"{setting} names an OpenAI model, and there is no key: set OPENAI_API_KEY, "
            "or MNEMIC_BASE_URL for an OpenAI-compatible server"
        )
    # clients insist on a key; a server of one's own takes any
    arguments = {"api_key": settings.api_key or SecretStr("none"), "base_url": settings.base_url}
    return {name: value for name, value in arguments.items() if value is not None}


async def offline(module: str, name: str) -> Any:
    """What stands in for a model, imported when it is first needed: 0.1 s that a configured one never costs."""
    return getattr(await asyncio.to_thread(import_module, f"mnemic.models.offline.{module}"), name)
