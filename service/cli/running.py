"""Runs asynchronous commands, and turns the library's errors into one message and exit code 2."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec

import typer

from mnemic.service.cli.output import say
from mnemic.state.errors import MnemicError

Parameters = ParamSpec("Parameters")

#: The command did its work, and found something that is not as it should be.
EXIT_FOUND_WRONG = 1
#: The command could not do its work; typer uses the same for wrong arguments.
EXIT_FAILED = 2


def blocking(command: Callable[Parameters, Awaitable[None]]) -> Callable[Parameters, None]:
    """The command as typer wants it, with the same name, arguments and help."""

    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        async def work() -> None:
            await command(*args, **kwargs)

        # a pool that cannot connect says so once a second; the error at its end says it once, and what to do
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        try:
            asyncio.run(work())
        except MnemicError as error:
            say(f"mnemic: {error}")
            raise typer.Exit(EXIT_FAILED) from None

    return run
