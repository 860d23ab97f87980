"""A process that holds one open `Mnemic` and does what it is told: the child's side of `processes.Worker`.

It knows no fault: whatever happens to it is done from outside, by signals, by the model it asks and by its database.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from mnemic.service.memory import Mnemic
from mnemic.state.errors import DatabaseUnavailableError, MnemicError
from mnemic.state.settings import Settings

#: Exit code of a worker that found no database when it started; any other failure to start is a traceback and 1.
NO_DATABASE = 3

#: A method of `Mnemic` by its name, or a test's own function of one, and its arguments.
Command = tuple[str | Callable[..., Awaitable[Any]], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What a method returned, or the class of the typed error it raised; any other error ends the worker."""

    result: Any = None
    error: type[MnemicError] | None = None


def serve(connection: Connection, settings: Settings, sabotage: Mapping[str, str]) -> None:
    """Performs the commands that come in, one after the other, and answers each, until the other end closes.

    Args:
        settings: all that the worker goes by; nothing of its environment counts.
        sabotage: statements to run instead of the product's, by `module.name` such as `inbox.settle`: for controls.
    """
    for place, statement in sabotage.items():
        _replace(place, statement)
    try:
        asyncio.run(_serve(connection, settings))
    except DatabaseUnavailableError:
        raise SystemExit(NO_DATABASE) from None


async def _serve(connection: Connection, settings: Settings) -> None:
    async with Mnemic.open(**settings.model_dump()) as memory:
        while command := await asyncio.to_thread(_next, connection):
            connection.send(await _perform(memory, command))


def _next(connection: Connection) -> Command | None:
    try:
        command: Command = connection.recv()
    except EOFError:
        return None
    return command


async def _perform(memory: Mnemic, command: Command) -> Answer:
    method, arguments, named = command
    try:
        act = getattr(memory, method) if isinstance(method, str) else partial(method, memory)
        return Answer(result=await act(*arguments, **named))
    except MnemicError as error:
        return Answer(error=type(error))


def _replace(place: str, statement: str) -> None:
    noun, _, name = place.partition(".")
    module = importlib.import_module(f"mnemic.storage.{noun}")
    known = vars(module)["_SQL"]
    assert name in known, f"{place} names no statement"
    vars(module)["_SQL"] = {**known, name: statement}
