"""The chat models that the settings name, made when first needed, and the endpoint they share with the embedder."""

import asyncio
import threading
from collections.abc import Mapping
from copy import copy
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from pydantic import SecretStr

from mnemic.state.errors import ConfigurationError
from mnemic.state.kinds import Usage
from mnemic.state.settings import OFFLINE, Settings, Tier

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.language_models import BaseChatModel

#: Tries after the first one, with the client's own growing pauses between them.
MAX_RETRIES = 2
OFFLINE_LABEL = "offline rules"
#: What a model is made with whose tokens no host that streams its graph may show, nor make it stream: a tool call that
#: breaks off is completed silently then (langchain-core's `parse_partial_json`), and half of a text would pass for all.
HIDDEN: Mapping[str, Any] = MappingProxyType({"tags": ["nostream"], "disable_streaming": True})


class ChatModels:
    """The models of the tiers `fast`, `slow` and `agent` that settings name; none is made before it is needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._made: dict[tuple[Tier, str, bool], BaseChatModel] = {}
        self._making = threading.Lock()

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
                self._made[tier, name, shown] = self._make(tier, name, shown)
            return self._made[tier, name, shown]

    async def for_call(self, tier: Tier, step: str, *, shown: bool = False) -> "tuple[BaseChatModel | None, Usage]":
        """As `get`, off the event loop, with the record of what the calls of this step will have cost."""
        spent = Usage(step=step, model=self.settings.model_for(tier))
        return await asyncio.to_thread(self.get, tier, shown=shown), spent

    def describe(self) -> str:
        """What forms the memories: `offline rules`, or the names of the fast and the slow model."""
        names = dict.fromkeys([self.settings.model_for("fast"), self.settings.model_for("slow")])
        return " / ".join(OFFLINE_LABEL if name == OFFLINE else name for name in names)

    def _make(self, tier: Tier, name: str, shown: bool) -> "BaseChatModel":
        # Here and not above: a second of imports that offline use never pays.
        from langchain.chat_models import init_chat_model

        setting = f"MNEMIC_{tier.upper()}_MODEL"
        arguments: dict[str, Any] = {"timeout": self.settings.model_timeout_seconds, "max_retries": MAX_RETRIES}
        if name.startswith("openai:"):
            arguments |= openai_endpoint(self.settings, setting)
        try:
            model: BaseChatModel = init_chat_model(name, **({} if shown else HIDDEN), **arguments)
        except ImportError as error:
            raise ConfigurationError(f"{setting} is {name!r}, and its package is missing: {error}") from error
        except ValueError as error:
            raise ConfigurationError(f"{setting} is {name!r}, which cannot be used: {error}") from error
        return model


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
