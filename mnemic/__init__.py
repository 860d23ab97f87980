"""Mnemic: long-term memory for LangGraph agents, on Postgres."""

from pathlib import Path

_here = Path(__file__).parent
if (
    _here / "graphs"
).is_symlink():  # a checkout: load the folders beside this one, so that tracebacks and breakpoints name them
    __path__.insert(0, str(_here.parent))

from mnemic.service.memory import Mnemic  # noqa: E402  # after the path above, so that one copy of each module exists
from mnemic.state.errors import MnemicError  # noqa: E402
from mnemic.state.identity import Identity  # noqa: E402
from mnemic.state.records import Found, HistoryEvent, Memory, ScopeSettings  # noqa: E402
from mnemic.state.settings import Settings  # noqa: E402

__all__ = ["Found", "HistoryEvent", "Identity", "Memory", "Mnemic", "MnemicError", "ScopeSettings", "Settings"]
