"""The events and reasons of the history."""

from typing import Literal

#: Names of the events of a memory, a relation (LINK) or a refinement (SESSION).
HistoryEventName = Literal[
    "ADD",
    "UPDATE",
    "PROTECT",
    "UNPROTECT",
    "SUPERSEDE",
    "ABSORB",
    "MERGE",
    "DEDUP",
    "DELETE",
    "TTL",
    "PURGE",
    "ERASE",
    "RESTORE",
    "LINK",
    "SESSION",
]
#: Events that delete the content of a memory.
ERASURE_EVENTS: tuple[HistoryEventName, ...] = ("PURGE", "ERASE")
#: Events that a refinement counts.
REFINEMENT_EVENTS: tuple[HistoryEventName, ...] = ("DEDUP", "MERGE", "UPDATE", "DELETE", "PROTECT")

#: Reasons of memories that a person wrote directly.
WRITTEN_REASONS = ("remember", "remember_procedure", "correct")
#: Reasons of a person's contributions to shared scopes.
CONTRIBUTION_REASONS = ("formation", *WRITTEN_REASONS, "propagation")
#: Reasons of rollbacks.
ROLLBACK_REASONS = ("undo", "restore")
#: Reasons of operations that delete contents for good.
ERASURE_REASONS = ("erasure", "retention")
#: Reasons of a refinement's operations.
REFINEMENT_REASONS = ("refinement", "merge", "dedup", "update", "delete", "protect")
#: Reasons that only the database's own functions may give.
RESERVED_REASONS = (*ROLLBACK_REASONS, *ERASURE_REASONS, "ttl", "protection", "merge", "dedup")
