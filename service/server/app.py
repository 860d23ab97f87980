"""The parts of LangGraph Server that `langgraph.json` names: checkpointer, routes and middleware."""

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
    """Yield a checkpointer for the server's threads in Mnemic's database.

    The server enters it once for each event loop before the first run, and leaves it after the last one. So it opens
    and closes the environment's resources, which the graphs use too.

    Raises:
        MnemicError: if settings do not fit, the server would be open to other machines, or the database is unavailable.
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
    """Return the state of the database, and the models; no contents."""
    try:
        resources = await from_environment()
        broken = [finding.name for finding in await check(resources.database) if not finding.ok]
    except MnemicError as error:
        return JSONResponse({"database": "unavailable", "problem": str(error)}, status_code=503)
    models = {"model": resources.models.describe(), "embedder": resources.embedder.name}
    if broken:
        return JSONResponse({"database": "unsound", "broken": broken, **models}, status_code=503)
    return JSONResponse({"database": "ok", "broken": [], **models})


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
