"""What kind of failure a model call met, in words that hold nothing of its content."""

import re
from functools import cache

from langchain_core import exceptions as provider

_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (provider.ModelRateLimitError, "rate limit"),
    (provider.ModelTimeoutError, "timeout"),
    (provider.ModelConnectionError, "no connection"),
    (provider.ModelAPIError, "server error"),
    (provider.ModelAuthenticationError, "key refused"),
    (provider.ModelPermissionDeniedError, "permission denied"),
    (provider.ModelNotFoundError, "unknown model"),
    (provider.ContextOverflowError, "input too long"),
    (provider.ModelInvalidRequestError, "request refused"),
    (TimeoutError, "timeout"),
    (OSError, "no connection"),
)
#: Where a client raises its own errors: the embeddings of langchain-openai.
_STATUS_KINDS = {401: "key refused", 403: "permission denied", 404: "unknown model", 408: "timeout", 429: "rate limit"}
#: A provider's error code is repeated only if it is a bare word, such as insufficient_quota.
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.IGNORECASE)


@cache
def transport_errors() -> tuple[type[Exception], ...]:
    """What a call raises when no usable answer came over the wire.

    The built-in ones are what the clients raise at an answer that is not of the protocol: a page of HTML, no choices.
    """
    import openai  # only ever asked for once a model is in use

    return (
        provider.ModelError,
        openai.OpenAIError,
        OSError,
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
    )


def failure_kind(error: Exception) -> str:
    """Such as `rate limit (HTTP 429, insufficient_quota)`. Never the message, which may quote what was sent."""
    status, code = getattr(error, "status_code", None), getattr(error, "code", None)
    kind = next((kind for known, kind in _KINDS if isinstance(error, known)), None) or _by_status(error, status)
    details = [f"HTTP {status}"] if isinstance(status, int) else []
    if isinstance(code, str) and _CODE.fullmatch(code):
        details.append(code)
    return f"{kind} ({', '.join(details)})" if details else kind


def _by_status(error: Exception, status: object) -> str:
    import openai

    if isinstance(status, int):
        return _STATUS_KINDS.get(status, "server error" if status >= 500 else "request refused")
    if isinstance(error, openai.APITimeoutError):
        return "timeout"
    if isinstance(error, openai.APIConnectionError):
        return "no connection"
    return "an answer that is not of the protocol"
