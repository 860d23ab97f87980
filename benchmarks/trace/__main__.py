"""Prints the modules of ours that one `observe -> form -> recall` enters, in their order, and limits their number.

python -m benchmarks.trace

Once with a scripted model in the models' place, once with the offline steps, each on an embedded server of its own.
A module counts when one of its functions is entered; loading it does not. Exits with 1 if a limit was not kept.
"""

import asyncio
import inspect
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType

from psycopg.conninfo import make_conninfo
from rich.console import Console

import mnemic
from benchmarks.latency.facts import TURNS
from benchmarks.latency.gates import Gate
from benchmarks.latency.report import gates_table
from benchmarks.latency.scripted import ScriptedModels
from benchmarks.latency.server import bench_server
from mnemic.memory.runtime.resources import open_resources
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.migrate import migrate
from mnemic.storage.schema import SERVICE_ROLE

_ROOT = Path(mnemic.__file__).resolve().parents[1]
#: Folders of the package, without the examples: in a checkout a link each.
_ROOMS = {path.name for path in (_ROOT / "mnemic").iterdir() if path.is_symlink()} - {"examples"}
_MODELS = {"fast_model": "openai:scripted", "slow_model": "openai:scripted", "api_key": "none"}
_IDENTITY = Identity(agent_id="trace", user_id="ana", session_id="first")
_MOST = {"scripted": 60, "offline": 65}


def main() -> None:
    """Print both walks and the gates."""
    console = Console(width=140)
    gates = []
    for steps, most in _MOST.items():
        walk = asyncio.run(_walk(steps))
        console.print(f"[bold]{steps}: {len(walk)} modules[/bold]")
        for module in walk:
            console.print(f"  {module}", highlight=False)
        gates.append(Gate(name=f"modules, {steps}", value=len(walk), limit=most))
    console.print(gates_table(gates))
    sys.exit(0 if all(gate.passes for gate in gates) else 1)


async def _walk(steps: str) -> list[str]:
    with bench_server() as server:
        database = server.new_database(steps)
        await migrate(database)
        async with _opened(make_conninfo(database, user=SERVICE_ROLE), scripted=steps == "scripted") as memory:
            with _entered() as walk:
                await memory.observe(_IDENTITY, _conversation())
                await memory.form(_IDENTITY, force=True)
                await memory.recall(_IDENTITY, "Where do I live?")
            return list(walk)


@cache
def _module(file: str) -> str | None:
    path = Path(file).resolve()
    inside = path.is_relative_to(_ROOT) and path.relative_to(_ROOT)
    return str(inside) if inside and inside.parts[0] in _ROOMS else None


@asynccontextmanager
async def _opened(dsn: str, *, scripted: bool) -> AsyncIterator[Mnemic]:
    settings = Settings(database_url=dsn, embedder="hash", **(_MODELS if scripted else {}))
    async with open_resources(settings) as resources:
        models = ScriptedModels(settings, lambda: "Ana lives in Porto.") if scripted else resources.models
        yield Mnemic(replace(resources, models=models))


def _conversation() -> list[dict[str, str]]:
    words = {"user": "I live in Porto.", "assistant": "Noted."}
    return [{"role": role, "content": words[role]} for role in TURNS]


@contextmanager
def _entered() -> Iterator[dict[str, None]]:
    """Record the modules that are entered meanwhile, in any thread, in order."""
    walk: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        # the body of a class is optimized as little as that of a module: loading is no walk
        is_function = event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if is_function and (module := _module(frame.f_code.co_filename)):
            walk.setdefault(module)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


if __name__ == "__main__":
    main()
