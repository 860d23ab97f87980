"""Access control of LangGraph Server: an ASGI middleware around all routes, also those of its runtime.

With MNEMIC_SERVER_KEY every request needs a valid token. Without a key, and without another authentication, only
programs and pages of this machine and Studio have access.
"""

import ipaddress
import logging
import os
import sys
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from langgraph_api.auth.custom import get_auth_instance
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from mnemic.service.server.auth import KEY, UNKNOWN, auth, read_claims
from mnemic.state.errors import ConfigurationError

_LOG = logging.getLogger("mnemic")
#: LangGraph's page for graphs, which runs in the developer's browser.
STUDIO: Final = "https://smith.langchain.com"
_REMEDY: Final = "set MNEMIC_SERVER_KEY to serve other machines"


class ServerAccess:
    """Middleware that refuses requests without access, before any route sees them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # debugging routes of the in-memory runtime: messages of any thread, removal of all data, deployments
        runtime: Any = sys.modules.get("langgraph_runtime_inmem.routes")
        self._debugging: list[BaseRoute] = []
        if runtime:
            self._debugging.extend(runtime.get_internal_routes())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an allowed request on, and refuse any other."""
        root = scope.get("root_path") or ""
        # set by the server's own client in this process, after it has authenticated its caller; a request cannot set it
        is_internal = root == "/noauth" or root.startswith("/noauth/")
        if scope["type"] == "lifespan" or is_internal:
            await self._app(scope, receive, send)
        elif KEY is None:
            await self._without_key(scope)(scope, receive, send)
        else:
            await self._with_key(scope, KEY)(scope, receive, send)

    def _without_key(self, scope: Scope) -> ASGIApp:
        problem = _foreign(scope, Headers(scope=scope)) if _is_open() else None
        if problem:
            return _refused(scope, 403, problem)
        return self._app

    def _with_key(self, scope: Scope, key: SecretStr) -> ASGIApp:
        headers = Headers(scope=scope)
        method = scope.get("method")
        if method == "OPTIONS" and {"origin", "access-control-request-method"} <= {*headers}:
            return self._app  # browsers send it without a token, and CORS rules answer it before any route
        if read_claims(headers.get("authorization"), key):
            if any(route.matches(scope)[0] is not Match.NONE for route in self._debugging):
                return _refused(scope, 403, "the server's debugging routes are closed while MNEMIC_SERVER_KEY is set")
            return self._app
        if scope["path"] == "/ok" and method in ("GET", "HEAD"):
            return JSONResponse({"ok": True})  # for load balancers; it shows that the process runs
        return _refused(scope, 401, UNKNOWN)


def check_access() -> None:
    """Check the configuration before the server answers its first request; log a warning if it is open.

    Raises:
        ConfigurationError: if a route would not pass through the middleware, or if the server is open and not on the
            loopback address.
    """
    running = sys.modules.get("langgraph_api.server")
    if running is None or (KEY is None and not _is_open()):
        return  # a worker of the queue without routes, or the host's own authentication
    if not any(middleware.cls is ServerAccess for middleware in running.app.user_middleware):
        raise ConfigurationError(
            "langgraph.json: not all of the server's routes pass through mnemic.service.server.access:ServerAccess."
            " Name mnemic.service.server.app:app as http.app, or give that middleware to your own app; leave out"
            " http.mount_prefix (MOUNT_PREFIX) and http.middleware_order"
        )
    if not _is_open():
        return
    url = os.environ.get("LANGGRAPH_API_URL", "")  # the address of the development server
    if url and not _at_loopback(url):
        raise ConfigurationError(f"the server would be open to every client that reaches {url}: {_REMEDY}")
    _LOG.warning(
        "MNEMIC_SERVER_KEY is not set: every program of this machine, and Studio, has access and may use any user."
        " Use this for development only"
    )


def _is_open() -> bool:
    """Return whether requests need no authentication."""
    return KEY is None and get_auth_instance() in (None, auth)


def _foreign(scope: Scope, headers: Headers) -> str | None:
    """Return the problem of a request from another machine or page, or None.

    The header Host counts too, since a page can have its own name resolved to this machine's address.
    """
    if not _is_loopback((scope.get("server") or [""])[0]):
        return f"this server is open, so it answers on loopback only: {_REMEDY}"
    if not all(_at_loopback(f"//{host}") for host in headers.getlist("host") or [""]):
        return f"Host: this server is open, so it answers to the name localhost only: {_REMEDY}"
    if not all(origin == STUDIO or _at_loopback(origin) for origin in headers.getlist("origin")):
        return f"Origin: this server is open, so it answers pages of this machine only: {_REMEDY}"
    return None


def _at_loopback(url: str) -> bool:
    with suppress(ValueError):
        return _is_loopback(urlsplit(url).hostname or "")
    return False


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


def _refused(scope: Scope, status: int, problem: str) -> ASGIApp:
    if scope["type"] == "websocket":
        return WebSocketClose(code=1008, reason=problem)
    # pages of other origins may read the refusal
    return JSONResponse({"detail": problem}, status, {"Access-Control-Allow-Origin": "*"})
