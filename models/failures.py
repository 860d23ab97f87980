"""Classify failed requests to a model: the kind of failure, the remedy, and whether another request may succeed."""

import random
import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from langchain_core import exceptions as provider
from pydantic import SecretStr
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

from mnemic.memory.text.words import word_set

#: Requests for one answer. Most temporary failures, a rate limit or a server that restarts, pass
#: within seconds.
MAX_REQUESTS: Final = 3
#: Pauses between requests: the first one, the longest one, and the longest one that a server may request.
FIRST_PAUSE_SECONDS: Final = 0.5
_MAX_PAUSE_SECONDS: Final = 8.0
_MAX_REQUESTED_PAUSE_SECONDS: Final = 60.0
#: A provider's error code is repeated only if it is a bare word, such as insufficient_quota.
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.IGNORECASE)
#: The request itself is at fault, not the key or the moment: most servers report a long input as a plain 400.
_REFUSED = frozenset({400, 413, 422})
#: Codes of providers that report a refused request under another status.
_CONTENT_CODES = word_set(
    "content_filter content_policy_violation context_length_exceeded invalid_prompt string_above_max_length"
)
#: Codes of a permanent failure under status 429.
_QUOTA_CODES = word_set("insufficient_quota billing_hard_limit_reached billing_not_active")
_UNKNOWN_MODEL = "model_not_found"
#: The status of a server that did not get a lock.
_CONFLICT = 409


class Endpoint(NamedTuple):
    """The model of a request, its address and its settings, as errors name them."""

    #: Such as `openai:gpt-5-mini`.
    name: str
    #: Such as `MNEMIC_FAST_MODEL`.
    setting: str
    #: The base URL from the settings, without login and query; None for the provider's own.
    url: str | None = None

    def fill(self, advice: str) -> str:
        """Return an advice with the names of this endpoint's settings."""
        provider_name = self.name.partition(":")[0]
        server, api = "the server", "an OpenAI API"
        if provider_name != "openai":
            key, address, api = f"the key of {provider_name}", "the provider's address", f"the API of {provider_name}"
        elif self.url:
            key, address = "MNEMIC_API_KEY", f"MNEMIC_BASE_URL, which is {self.url}"
        else:
            key, address = "MNEMIC_API_KEY", "MNEMIC_BASE_URL"
        return advice.format(key=key, setting=self.setting, address=address, server=server, api=api)


class Failure(NamedTuple):
    """The reason for a missing answer. Never the client's own message, which may quote the request."""

    #: Such as `rate limit (HTTP 429)`.
    problem: str
    #: The remedy, with the names of settings.
    advice: str
    #: Whether the same request will always be refused; one with half of the texts may not be.
    is_refused: bool
    #: Whether it is temporary.
    passes: bool
    #: Whether a setting is wrong, so that no request succeeds until it is corrected.
    is_misconfigured: bool


class _Kind(NamedTuple):
    name: str
    errors: tuple[type[Exception], ...]
    status: int
    advice: str
    passes: bool = False
    is_misconfigured: bool = False


_SERVER = _Kind("server error", (provider.ModelAPIError,), 0, "the server failed: look at its log, or wait", True)
_TIMEOUT = _Kind(
    *("timeout", (provider.ModelTimeoutError, TimeoutError), 408),
    "the model is stuck, or needs more than MNEMIC_MODEL_TIMEOUT_SECONDS and MNEMIC_MODEL_DEADLINE_SECONDS give it",
    passes=True,
)
_NO_CONNECTION = _Kind(
    *("no connection", (provider.ModelConnectionError, OSError), 0),
    "start the server, or correct {address}",
    passes=True,
)
_REQUEST = _Kind("request refused", (provider.ModelInvalidRequestError,), 0, "")
_QUOTA = _Kind("quota used up", (), 402, "top the account up, or set another key ({key})")
_PATH = _Kind(
    "nothing at this path", (), 405, "correct {address}: for most servers it ends in /v1", is_misconfigured=True
)
_MODEL = _Kind("unknown model", (), 0, "correct {setting}", is_misconfigured=True)
#: By the exceptions of langchain-core and Python or by the HTTP status: the first that fits.
_KINDS: Final = (
    _Kind("rate limit", (provider.ModelRateLimitError,), 429, "wait, or use a key with a higher limit ({key})", True),
    _TIMEOUT,
    _NO_CONNECTION,
    _SERVER,
    _Kind("key refused", (provider.ModelAuthenticationError,), 401, "correct {key}", is_misconfigured=True),
    _Kind(
        *("permission denied", (provider.ModelPermissionDeniedError,), 403),
        "use another key ({key}) or {setting}",
        is_misconfigured=True,
    ),
    _Kind(
        *("unknown model or path", (provider.ModelNotFoundError,), 404),
        "correct {setting} or {address}",
        is_misconfigured=True,
    ),
    _Kind(
        *("input too long", (provider.ContextOverflowError,), 413),
        "use a model that takes more ({setting}), or smaller batches (MNEMIC_FORMATION_BATCH_TOKENS)",
    ),
    _QUOTA,
    _PATH,
    _REQUEST,
    # raised by clients for an answer outside the protocol: a page of HTML, no choices
    _Kind(
        *("unreadable answer", (TypeError, ValueError, AttributeError, LookupError), 0),
        "{server} did not answer like {api}; correct {address}",
        is_misconfigured=True,
    ),
)


def failure_of(error: Exception, endpoint: Endpoint) -> Failure:
    """Return the failure of an error that any provider's client raised."""
    status, code = _status(error), _code(error)
    kind = _kind(error, status, code)
    is_refused = isinstance(error, provider.ContextOverflowError | provider.ModelInvalidRequestError)
    return Failure(
        _problem(kind, status, code),
        endpoint.fill(kind.advice),
        is_refused or status in _REFUSED or code in _CONTENT_CODES,
        kind.passes,
        kind.is_misconfigured,
    )


def _problem(kind: _Kind, status: int | None, code: str | None) -> str:
    details: list[str] = []
    if status:
        details.append(f"HTTP {status}")
    if code:
        details.append(code)
    if not details:
        return kind.name
    return f"{kind.name} ({', '.join(details)})"


def stated(failure: Failure) -> str:
    """Join problem and advice, as in `key refused (HTTP 401): correct MNEMIC_API_KEY`."""
    if not failure.advice:
        return failure.problem
    return f"{failure.problem}: {failure.advice}"


def retry_policy(endpoint: Endpoint, begun: Callable[[], bool] = lambda: False) -> AsyncRetrying:
    """Return a retry policy: up to three requests if the failure is temporary.

    Args:
        endpoint: the model and its address.
        begun: returns whether a part of the answer has been shown; then no second request follows.
    """

    def may_pass(error: BaseException) -> bool:
        return isinstance(error, Exception) and failure_of(error, endpoint).passes and not begun()

    return AsyncRetrying(
        stop=stop_after_attempt(MAX_REQUESTS),
        retry=retry_if_exception(may_pass),
        wait=lambda state: pause_before(state.outcome and state.outcome.exception(), state.attempt_number),
        reraise=True,
    )


def pause_before(error: object, request: int) -> float:
    """Return the seconds to wait before another request: the server's own figure, or longer each time.

    Args:
        error: the error of the last request.
        request: the number of the last request, from 1.
    """
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:  # missing, or a date
            continue
        if 0 <= seconds <= _MAX_REQUESTED_PAUSE_SECONDS:
            return seconds
    longest = min(_MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (request - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads requests, hides nothing


def shown_address(url: SecretStr | None) -> str | None:
    """Return an address without login and query; None without one."""
    if url is None:
        return None
    parts = urlsplit(url.get_secret_value())
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _kind(error: Exception, status: int | None, code: str | None) -> _Kind:
    if code in _QUOTA_CODES:
        return _QUOTA
    if status == 404:
        if code == _UNKNOWN_MODEL:
            return _MODEL
        # an API describes the missing thing in its own form; a plain web server does not
        body = getattr(error, "body", None)
        if body is not None and not (isinstance(body, dict) and "message" in body):
            return _PATH
    for kind in _KINDS:
        if isinstance(error, kind.errors) or status == kind.status:
            return kind
    if not status:
        return _kind_by_name(type(error).__name__)
    if status >= 500 or status == _CONFLICT:
        return _SERVER
    return _REQUEST


def _kind_by_name(name: str) -> _Kind:
    """Return the kind of an error by the name of its class, which belongs to a provider."""
    if "Timeout" in name:
        return _TIMEOUT
    if "Connect" in name:
        return _NO_CONNECTION
    return _Kind(name, (), 0, "look at {setting}")


def _status(error: Exception) -> int | None:
    """Return the HTTP status, if the provider's client keeps one."""
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if not isinstance(status, int):
        return None
    return status


def _code(error: Exception) -> str | None:
    code = getattr(error, "code", None)
    if isinstance(code, str) and _CODE.fullmatch(code):
        return code
    return None
