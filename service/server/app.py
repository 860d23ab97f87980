"""What `langgraph.json` names for LangGraph Server: our checkpointer, our own route, and the door of all routes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mnemic.graphs.consolidation import graph as consolidation_graph
from mnemic.graphs.formation import graph as formation_graph
from mnemic.graphs.refinement import graph as refinement_graph
from mnemic.memory.runtime.resources import close_environment, from_environment
from mnemic.service.metrics import metrics_text
from mnemic.service.server.access import ServerAccess, check_access
from mnemic.service.server.threads import ServerThreads
from mnemic.service.worker import background_work
from mnemic.state.errors import MnemicError
from mnemic.storage.doctor import check


@asynccontextmanager
async def checkpointer() -> AsyncIterator[ServerThreads]:
    """The server's threads in Mnemic's own database.

    The server enters it once for each event loop, before any run, and leaves it after the last one: so it is what opens
    the environment's resources, which the graphs use too, and closes them.

    Raises:
        MnemicError: settings do not fit, the server would answer strangers, or the database cannot be had; the message
            says what to do.
    """
    check_access()
    try:
        resources = await from_environment()
        async with AsyncExitStack() as stack:
            if resources.settings.background:
                await stack.enter_async_context(background_work(resources, ServerGraphs()))
            yield ServerThreads(resources.database)
    finally:
        await close_environment()


class ServerGraphs:
    """The graphs that langgraph.json names, for background jobs."""

    formation = formation_graph
    consolidation = consolidation_graph
    refinement = refinement_graph


async def health(_: Request) -> JSONResponse:
    """Whether the database answers and is sound, and what the server works with; nothing of what is stored."""
    try:
        resources = await from_environment()
        broken = [finding.name for finding in await check(resources.database) if not finding.ok]
    except MnemicError as error:
        return JSONResponse({"database": "unavailable", "problem": str(error)}, status_code=503)
    return JSONResponse(
        {
            "database": "unsound" if broken else "ok",
            "broken": broken,
            "model": resources.models.describe(),
            "embedder": resources.embedder.name,
        },
        status_code=503 if broken else 200,
    )


async def metrics(_: Request) -> Response:
    """Return figures for Prometheus, of the database and of this process; no contents and no ids."""
    try:
        text = await metrics_text(await from_environment())
    except MnemicError as error:
        return JSONResponse({"problem": str(error)}, status_code=503)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


app = Starlette(
    routes=[Route("/mnemic/health", health), Route("/mnemic/metrics", metrics)], middleware=[Middleware(ServerAccess)]
)
