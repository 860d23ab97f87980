"""Mnemic: long-term memory for LangGraph agents, on Postgres."""

from pathlib import Path

_here = Path(__file__).parent
if (
    _here / "graphs"
).is_symlink():  # a checkout: load the folders beside this one, so that tracebacks and breakpoints name them
    __path__.insert(0, str(_here.parent))
