"""The door of LangGraph Server: an ASGI middleware around all of its routes, its runtime's own included.

With a key nothing is answered without a valid token. Without one, where no other authentication is configured, only
programs and pages of this machine are answered, and Studio's.
"""

import ipaddress
import logging
import os
import sys
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from langgraph_api.auth.custom import get_auth_instance
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from mnemic.service.server.auth import KEY, UNKNOWN, auth, holder
from mnemic.state.errors import ConfigurationError

_LOG = logging.getLogger("mnemic")
#: LangGraph's own page for graphs, which runs in the developer's browser.
STUDIO: Final = "https://smith.langchain.com"
_TO_DO: Final = "set MNEMIC_SERVER_KEY to serve others than this machine"


class ServerAccess:
    """Answers whom the server may answer; everybody else learns that they are refused and nothing more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # what the in-memory runtime adds for debugging: any thread's messages, emptying everything, deployments
        runtime: Any = sys.modules.get("langgraph_runtime_inmem.routes")
        self._debugging: list[BaseRoute] = list(runtime.get_internal_routes()) if runtime else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path") or ""
        # of the server's own client in its process, which has asked for its caller already; no request can say so
        within = root == "/noauth" or root.startswith("/noauth/")
        answering = self._app if scope["type"] == "lifespan" or within else self._answering(scope)
        await answering(scope, receive, send)

    def _answering(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        if KEY is None:
            return _refused(scope, 403, problem) if _open() and (problem := _foreign(scope, headers)) else self._app
        method = scope["method"] if scope["type"] == "http" else None
        if method == "OPTIONS" and {"origin", "access-control-request-method"} <= {*headers}:
            return self._app  # browsers send no token with it, and the server's CORS rules answer it before any route
        if holder(headers.get("authorization"), KEY):
            if any(route.matches(scope)[0] is not Match.NONE for route in self._debugging):
                return _refused(scope, 403, "the server's debugging routes are closed while MNEMIC_SERVER_KEY is set")
            return self._app
        if scope["path"] == "/ok" and method in ("GET", "HEAD"):
            return JSONResponse({"ok": True})  # for load balancers: that the process answers, and nothing else
        return _refused(scope, 401, UNKNOWN)


def check_access() -> None:
    """Makes sure, before the server answers anybody, that it answers nobody it should not; says so where it is open.

    Raises:
        ConfigurationError: a route would not pass through the middleware, or the server is open and not on loopback.
    """
    running = sys.modules.get("langgraph_api.server")
    if running is None or (KEY is None and not _open()):
        return  # a worker of the queue, which serves no routes of ours; or the host's own authentication
    if not any(middleware.cls is ServerAccess for middleware in running.app.user_middleware):
        raise ConfigurationError(
            "langgraph.json: not all of the server's routes pass through mnemic.service.server.access:ServerAccess."
            " Name mnemic.service.server.app:app as http.app, or give that middleware to your own app; leave out"
            " http.mount_prefix (MOUNT_PREFIX) and http.middleware_order"
        )
    if not _open():
        return
    url = os.environ.get("LANGGRAPH_API_URL", "")  # where the development server says that it listens
    if url and not _at_loopback(url):
        raise ConfigurationError(f"the server would be open to everybody who reaches {url}: {_TO_DO}")
    _LOG.warning(
        "MNEMIC_SERVER_KEY is not set: every program of this machine, and Studio, is let in and may name any user,"
        " which is for development only"
    )


def _open() -> bool:
    return KEY is None and get_auth_instance() in (None, auth)


def _foreign(scope: Scope, headers: Headers) -> str | None:
    """What makes a request one from elsewhere: a page can have its own name resolved to this machine's address."""
    if not _is_loopback((scope.get("server") or [""])[0]):
        return f"this server is open, so it answers on loopback only: {_TO_DO}"
    if not all(_at_loopback(f"//{host}") for host in headers.getlist("host") or [""]):
        return f"Host: this server is open, so it answers only where it is called localhost: {_TO_DO}"
    if not all(origin == STUDIO or _at_loopback(origin) for origin in headers.getlist("origin")):
        return f"Origin: this server is open, so it answers no page from elsewhere: {_TO_DO}"
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
    # a page of another origin may read that it is refused, as it reads answers
    return JSONResponse({"detail": problem}, status, {"Access-Control-Allow-Origin": "*"})
