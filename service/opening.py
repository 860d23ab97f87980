"""The ways to open `Mnemic` and `Administration`, and errors that name them for any other way."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Opened = TypeVar("Opened")
Instance = TypeVar("Instance")


def opening_statements(owner: str) -> str:
    """Return the two statements that open an object.

    Args:
        owner: name of a class, or of one of its methods, such as `Mnemic` or `SyncMnemic.__init__`.
    """
    name = owner.partition(".")[0].removeprefix("Sync")
    return f"open it with `async with {name}.open()`, or without an event loop with `with {name}.open_sync()`"


class _AsyncOpening(AbstractAsyncContextManager[Opened]):
    """Context of an `async with` statement that names the right way to a `with` statement."""

    def __init__(self, opening: AbstractAsyncContextManager[Opened], owner: str) -> None:
        self._opening = opening
        self._owner = owner

    async def __aenter__(self) -> Opened:
        return await self._opening.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> bool | None:
        return await self._opening.__aexit__(kind, error, frames)

    def __enter__(self) -> NoReturn:
        raise TypeError(f"a `with` statement cannot open this: {opening_statements(self._owner)}")

    def __exit__(self, *_: object) -> None:
        """Do nothing: a `with` statement looks for this method before it calls `__enter__`."""


def opening(
    owner: str,
) -> Callable[[Callable[Parameters, AsyncIterator[Opened]]], Callable[Parameters, AbstractAsyncContextManager[Opened]]]:
    """Make a generator a function for `async with`, as `asynccontextmanager` does; `with` gets a clear error.

    Args:
        owner: name of the class that it opens.
    """

    def decorate(
        function: Callable[Parameters, AsyncIterator[Opened]],
    ) -> Callable[Parameters, AbstractAsyncContextManager[Opened]]:
        make = asynccontextmanager(function)

        @wraps(function)
        def opened(*args: Parameters.args, **kwargs: Parameters.kwargs) -> AbstractAsyncContextManager[Opened]:
            return _AsyncOpening(make(*args, **kwargs), owner)

        opened.__name__, opened.__qualname__ = "open", f"{owner}.open"
        return opened

    return decorate


def require_opened(
    kind: type,
) -> Callable[[Callable[Concatenate[Instance, Parameters], None]], Callable[Concatenate[Instance, Parameters], None]]:
    """Refuse to make an object by its class, unless its first argument comes from opening it.

    Args:
        kind: the class of that argument.
    """

    def decorate(
        init: Callable[Concatenate[Instance, Parameters], None],
    ) -> Callable[Concatenate[Instance, Parameters], None]:
        @wraps(init)
        def make(self: Instance, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
            arguments: tuple[Any, ...] = args
            if not arguments or not isinstance(arguments[0], kind):
                raise TypeError(opening_statements(init.__qualname__))
            init(self, *args, **kwargs)

        return make

    return decorate
