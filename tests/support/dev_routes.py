"""Every route of a running development server, listed by itself; and a server whose routes nobody guards."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Some id where a route wants one.
ANY_ID = "6ba7b811-9dad-11d1-80b4-00c04fd430c8"
_LISTED = "routes.json"

_LISTING = """
import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from mnemic.service.server.app import app as server


def walk(routes, before=""):
    for route in routes:
        path, within = before + getattr(route, "path", ""), getattr(route, "routes", None)
        if within:
            yield from walk(within, path)
        else:
            module = getattr(getattr(route, "endpoint", None), "__module__", "")
            yield {"path": path, "methods": sorted(getattr(route, "methods", None) or []), "module": module}


@asynccontextmanager
async def listing(_):
    running = sys.modules["langgraph_api.server"].app
    await asyncio.to_thread(Path("routes.json").write_text, json.dumps(list(walk(running.routes))))
    yield

"""
_GUARDED = "app = server.app\napp.router.lifespan_context = listing\n"
#: What checks at the start that the middleware is there is switched off too.
_UNGUARDED = "server.check_access = lambda: None\napp = Starlette(routes=server.app.routes, lifespan=listing)\n"


@dataclass(frozen=True)
class Route:
    path: str
    methods: tuple[str, ...]
    debugging: bool

    @property
    def url(self) -> str:
        path = re.sub(r"{[^}]*}", ANY_ID, self.path)
        return path if path.startswith("/") else f"/{path}"


def listing_app(directory: Path, *, guarded: bool = True) -> Mapping[str, Any]:
    """The section `http` of a langgraph.json whose server writes down its routes; unguarded without our middleware."""
    (directory / "listed.py").write_text(_LISTING + (_GUARDED if guarded else _UNGUARDED), encoding="utf-8")
    return {"app": "./listed.py:app", "enable_custom_route_auth": True}


def routes_of(directory: Path) -> list[Route]:
    """The routes of the server that was started there."""
    listed = json.loads((directory / _LISTED).read_text(encoding="utf-8"))
    return [Route(one["path"], tuple(one["methods"]), one["module"].startswith("langgraph_runtime")) for one in listed]
