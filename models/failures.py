"""What kind of failure a model call met, in words that hold nothing of its content."""

import re

from langchain_core import exceptions as provider

_KINDS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
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
    # what clients raise at an answer that is not of the protocol: a page of HTML, no choices
    ((TypeError, ValueError, AttributeError, LookupError), "an answer that is not of the protocol"),
)
_STATUS_KINDS = {
    401: "key refused",
    403: "permission denied",
    404: "unknown model",
    408: "timeout",
    413: "input too long",
    429: "rate limit",
}
#: A provider's error code is repeated only if it is a bare word, such as insufficient_quota.
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.IGNORECASE)
#: What was sent is at fault, and not who sent it or when: too long for most servers is a plain 400.
_REFUSED = frozenset({400, 413, 422})
#: Codes of providers that say so under another status.
_CONTENT_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "invalid_prompt",
        "string_above_max_length",
    }
)


def failure_kind(error: Exception) -> str:
    """Such as `rate limit (HTTP 429, insufficient_quota)`. Never the message, which may quote what was sent."""
    status, code = _status(error), _code(error)
    kind = next((kind for known, kind in _KINDS if isinstance(error, known)), None) or _by_status(error, status)
    details = [f"HTTP {status}"] if status else []
    details += [code] if code else []
    return f"{kind} ({', '.join(details)})" if details else kind


def refuses_request(error: Exception) -> bool:
    """Whether the same request will be refused again, however long one waits; one of half as many texts may not be."""
    if isinstance(error, provider.ContextOverflowError | provider.ModelInvalidRequestError):
        return True
    return _status(error) in _REFUSED or _code(error) in _CONTENT_CODES


def _status(error: Exception) -> int | None:
    """The HTTP status, where the clients of providers keep it."""
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _code(error: Exception) -> str | None:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _by_status(error: Exception, status: int | None) -> str:
    """Errors of a provider's own class, which is named where nothing better is known."""
    if status:
        return _STATUS_KINDS.get(status, "server error" if status >= 500 else "request refused")
    name = type(error).__name__
    if "Timeout" in name:
        return "timeout"
    return "no connection" if "Connect" in name else name
