"""The OpenAI-compatible endpoint of the settings, shared by chat models and embedder."""

from typing import Any

from pydantic import SecretStr

from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings

#: Tries after the first one, with the client's own growing pauses between them.
MAX_RETRIES = 2
#: Clients insist on a key; a server of one's own takes any.
_ANY_KEY = SecretStr("none")


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
    arguments: dict[str, Any] = {"api_key": settings.api_key or _ANY_KEY}
    if settings.base_url is not None:
        arguments["base_url"] = settings.base_url
    return arguments
