"""Mnemic: long-term memory for LangGraph agents, on Postgres."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnemic.prompts.recall.request import with_memory
    from mnemic.service.governance.administration import Administration
    from mnemic.service.hosts.middleware import MemoryMiddleware
    from mnemic.service.memory import Mnemic
    from mnemic.state.errors import MnemicError
    from mnemic.state.formation import Corrected, Remembered
    from mnemic.state.governance import AuditProblem, Operation, PastMemory, Rollback
    from mnemic.state.identity import Identity
    from mnemic.state.maintenance import MaintenanceRun
    from mnemic.state.records import HistoryEvent, Memory, ScopeSettings, SearchResult
    from mnemic.state.refinement import Refinement
    from mnemic.state.results import (
        ConsolidationResult,
        Forgotten,
        FormationResult,
        Protection,
        RecallResult,
        RefinementResult,
    )
    from mnemic.state.settings import Settings
    from mnemic.state.supervisor import MemoryState, ThreadStatus

__version__ = "0.1.0"

__all__ = [
    "Administration",
    "AuditProblem",
    "ConsolidationResult",
    "Corrected",
    "Forgotten",
    "FormationResult",
    "HistoryEvent",
    "Identity",
    "MaintenanceRun",
    "Memory",
    "MemoryMiddleware",
    "MemoryState",
    "Mnemic",
    "MnemicError",
    "Operation",
    "PastMemory",
    "Protection",
    "RecallResult",
    "Refinement",
    "RefinementResult",
    "Remembered",
    "Rollback",
    "ScopeSettings",
    "SearchResult",
    "Settings",
    "ThreadStatus",
    "with_memory",
]

_HOMES = {
    "Administration": "mnemic.service.governance.administration",
    "AuditProblem": "mnemic.state.governance",
    "Corrected": "mnemic.state.formation",
    "MaintenanceRun": "mnemic.state.maintenance",
    "Mnemic": "mnemic.service.memory",
    "MemoryMiddleware": "mnemic.service.hosts.middleware",
    "MemoryState": "mnemic.state.supervisor",
    "MnemicError": "mnemic.state.errors",
    "Refinement": "mnemic.state.refinement",
    "RefinementResult": "mnemic.state.results",
    "ConsolidationResult": "mnemic.state.results",
    "Forgotten": "mnemic.state.results",
    "FormationResult": "mnemic.state.results",
    "Protection": "mnemic.state.results",
    "RecallResult": "mnemic.state.results",
    "Remembered": "mnemic.state.formation",
    "Identity": "mnemic.state.identity",
    "Operation": "mnemic.state.governance",
    "PastMemory": "mnemic.state.governance",
    "Rollback": "mnemic.state.governance",
    "Settings": "mnemic.state.settings",
    "ThreadStatus": "mnemic.state.supervisor",
    "with_memory": "mnemic.prompts.recall.request",
}

_here = Path(__file__).resolve().parent
# in a checkout, load the folders of the repository and not the links to them: breakpoints have those paths
if (_here / "graphs").is_symlink():
    __path__.insert(0, str(_here.parent))


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that one folder can be imported without the others."""
    if name not in __all__:
        raise AttributeError(f"module 'mnemic' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "mnemic.state.records")), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
