"""What went wrong with a request to a model: what it is called, what to do about it, and whether to ask again."""

import random
import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from langchain_core import exceptions as provider
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

from mnemic.policy.text.words import word_set

#: Requests for one answer. Most of what passes by itself, a limit of requests or a server that starts anew, does so
#: within seconds.
MOST_REQUESTS: Final = 3
#: Seconds between them: the first pause, the longest, and the longest that a server may ask for.
FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8.0
_LONGEST_ASKED: Final = 60.0
#: A provider's error code is repeated only if it is a bare word, such as insufficient_quota.
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.IGNORECASE)
#: What was sent is at fault, and not who sent it or when: too long for most servers is a plain 400.
_REFUSED = frozenset({400, 413, 422})
#: Codes of providers that say so under another status.
_CONTENT_CODES = word_set(
    "content_filter content_policy_violation context_length_exceeded invalid_prompt string_above_max_length"
)
#: Under status 429, which passes; this does not.
_QUOTA_CODES = word_set("insufficient_quota billing_hard_limit_reached billing_not_active")
_UNKNOWN_MODEL = "model_not_found"
#: A server says so of a lock that it did not get.
_CONFLICT = 409


class Endpoint(NamedTuple):
    """Which model is asked, where, and by which settings: what an error names."""

    #: Such as `openai:gpt-5-mini`.
    name: str
    #: Such as `MNEMIC_FAST_MODEL`.
    setting: str
    #: The base URL that the settings give it; None: the provider's own.
    url: str | None = None

    def fill(self, advice: str) -> str:
        """An advice with the names of the settings that it is about."""
        of_openai = self.name.startswith("openai:")
        key = "MNEMIC_API_KEY" if of_openai else f"the key of {self.name.partition(':')[0]}"
        place = f", which is {without_login(self.url)}" if self.url else ""
        address = f"MNEMIC_BASE_URL{place}" if of_openai else "the provider's address"
        return advice.format(key=key, setting=self.setting, address=address)


class Failure(NamedTuple):
    """Why no answer came. Never the client's own message, which may quote what was sent."""

    #: Such as `rate limit (HTTP 429)`.
    problem: str
    #: What to do, by the names of settings.
    advice: str
    #: Whether the same request will be refused again, however long one waits; one of half as many texts may not be.
    is_refused: bool
    #: Whether it may pass by itself.
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
_REQUEST = _Kind("request refused", (provider.ModelInvalidRequestError,), 0, "")
_QUOTA = _Kind("quota used up", (), 402, "top the account up, or set another key ({key})")
_PATH = _Kind(
    "nothing at this path", (), 405, "correct {address}: for most servers it ends in /v1", is_misconfigured=True
)
_MODEL = _Kind("unknown model", (), 0, "correct {setting}", is_misconfigured=True)
#: By the exceptions of langchain-core and Python or by the HTTP status: the first that fits.
_KINDS: Final = (
    _Kind("rate limit", (provider.ModelRateLimitError,), 429, "wait, or use a key that may ask for more ({key})", True),
    _Kind(
        *("timeout", (provider.ModelTimeoutError, TimeoutError), 408),
        "the model is stuck, or needs more than MNEMIC_MODEL_TIMEOUT_SECONDS and MNEMIC_MODEL_DEADLINE_SECONDS give it",
        True,
    ),
    _Kind("no connection", (provider.ModelConnectionError, OSError), 0, "start the server, or correct {address}", True),
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
    # what clients raise at an answer that is not of the protocol: a page of HTML, no choices
    _Kind(
        *("an answer that is not of the protocol", (TypeError, ValueError, AttributeError, LookupError), 0),
        "correct {address}: what answers there is no such API",
        is_misconfigured=True,
    ),
)


def failure_of(error: Exception, endpoint: Endpoint) -> Failure:
    """What an error of any provider's client is."""
    status, code = _status(error), _code(error)
    kind = _kind(error, status, code)
    is_refused = isinstance(error, provider.ContextOverflowError | provider.ModelInvalidRequestError)
    details = ", ".join(filter(None, (f"HTTP {status}" if status else None, code)))
    return Failure(
        f"{kind.name} ({details})" if details else kind.name,
        endpoint.fill(kind.advice),
        is_refused or status in _REFUSED or code in _CONTENT_CODES,
        kind.passes,
        kind.is_misconfigured,
    )


def stated(failure: Failure) -> str:
    """`key refused (HTTP 401): correct MNEMIC_API_KEY`."""
    return f"{failure.problem}: {failure.advice}" if failure.advice else failure.problem


def tries(endpoint: Endpoint, begun: Callable[[], bool] = lambda: False) -> AsyncRetrying:
    """Asks up to three times for what passes by itself.

    Args:
        endpoint: whom is asked.
        begun: whether a part of the answer has been shown, so that no second one may follow.
    """

    def may_pass(error: BaseException) -> bool:
        return isinstance(error, Exception) and failure_of(error, endpoint).passes and not begun()

    return AsyncRetrying(
        stop=stop_after_attempt(MOST_REQUESTS),
        retry=retry_if_exception(may_pass),
        wait=lambda state: pause_before(state.outcome and state.outcome.exception(), state.attempt_number),
        reraise=True,
    )


def pause_before(error: object, request: int) -> float:
    """Seconds to wait before another request: what the server asks for, else longer each time.

    Args:
        error: what the last one ended with.
        request: its number, from 1.
    """
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            asked = float(headers.get(name, "")) * unit
        except ValueError:  # not there, or a date
            continue
        if 0 <= asked <= _LONGEST_ASKED:
            return asked
    longest = min(_LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (request - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads requests, hides nothing


def without_login(url: str) -> str:
    """An address without the name and password that may stand in it, and without a query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _kind(error: Exception, status: int | None, code: str | None) -> _Kind:
    if code in _QUOTA_CODES:
        return _QUOTA
    if status == 404:
        if code == _UNKNOWN_MODEL:
            return _MODEL
        # an API says in its own form what it does not know; a web server knows nothing of that form
        body = getattr(error, "body", None)
        if body is not None and not (isinstance(body, dict) and "message" in body):
            return _PATH
    found = next((kind for kind in _KINDS if isinstance(error, kind.errors) or status == kind.status), None)
    if found:
        return found
    if status:
        return _SERVER if status >= 500 or status == _CONFLICT else _REQUEST
    # an error of a provider's own class, which is named where nothing better is known
    name = type(error).__name__
    by_name = "timeout" if "Timeout" in name else "no connection" if "Connect" in name else None
    return next((kind for kind in _KINDS if kind.name == by_name), _Kind(name, (), 0, "look at {setting}"))


def _status(error: Exception) -> int | None:
    """The HTTP status, where the clients of providers keep it."""
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _code(error: Exception) -> str | None:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None
