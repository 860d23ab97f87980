"""The history of memories: of one, for those who may see it; of an agent, checked; of a person, exported."""

from collections.abc import Sequence
from uuid import UUID

from mnemic.state.governance import AuditProblem, ChainRow, Head
from mnemic.state.records import HistoryEvent
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("history")


async def of_memory(scoped: ScopedTransaction, memory_id: UUID) -> list[HistoryEvent]:
    """Every audited change of one memory, oldest first; empty for an unknown or foreign id."""
    return await scoped.rows(HistoryEvent, _SQL["of_memory"], {"memory_id": memory_id})


async def done_today(scoped: ScopedTransaction, *reasons: str) -> int:
    """Changes for these reasons since midnight (UTC) in the identity's session, or by its actor without one."""
    who = scoped.identity
    values = {"reasons": list(reasons), "session_id": who.session_id, "actor": who.actor}
    row = await (await scoped.execute(_SQL["done_today"], values)).fetchone()
    return int(row[0]) if row else 0


async def problems(scoped: ScopedTransaction) -> list[AuditProblem]:
    """As administrator: all that is wrong with the agent's history, by seq.

    One statement and so one moment: who writes meanwhile is in nobody's way and causes no false alarm.
    """
    agent = scoped.identity.agent_id
    found = await scoped.call("audit_problems")
    return [AuditProblem(problem=problem, agent_id=agent, seq=seq, memory_id=of) for problem, seq, of in found]


async def head(scoped: ScopedTransaction) -> Head | None:
    """The newest row of the agent's history; None: there is none."""
    found = await scoped.rows(Head, _SQL["head"], {})
    return found[0] if found else None


async def hashes(scoped: ScopedTransaction, seqs: Sequence[int]) -> dict[int, bytes]:
    """As administrator: the hashes of those of these rows of the agent's history that are there."""
    return {row.seq: row.hash for row in await scoped.rows(Head, _SQL["hashes"], {"seqs": list(seqs)})}


async def agents(database: Database) -> list[str]:
    """As administrator: every agent that has a history or should have one, in alphabetical order."""
    async with database.catalog() as connection:
        return [agent for (agent,) in await (await connection.execute("select agent_id from agent_ids()")).fetchall()]


async def exported(scoped: ScopedTransaction, own: Sequence[str], *, after: int, last: int) -> list[ChainRow]:
    """As a person: rows of the chain, after the one up to the other; the person's own with all there is of them."""
    return await scoped.rows(ChainRow, _SQL["exported"], {"own": own, "after": after, "last": last})
