"""The checks of the audit, and what an export of it is made of. The database finds; here it becomes records."""

from collections.abc import Sequence

from mnemic.state.audit import AuditProblem, ChainRow, Head
from mnemic.storage.database import Database
from mnemic.storage.statements import load_statements
from mnemic.storage.transaction import Scoped

_SQL = load_statements("audit")


async def problems(scoped: Scoped) -> list[AuditProblem]:
    """As administrator: all that is wrong with the agent's history, by seq.

    One statement and so one moment: who writes meanwhile is in nobody's way and causes no false alarm.
    """
    return await scoped.rows(AuditProblem, _SQL["problems"], {})


async def head(scoped: Scoped) -> Head | None:
    """As administrator: the newest row of the agent's history; None: there is none."""
    found = await scoped.rows(Head, _SQL["head"], {})
    return found[0] if found else None


async def hashes(scoped: Scoped, seqs: Sequence[int]) -> dict[int, bytes]:
    """As administrator: the hashes of those of these rows of the agent's history that are there."""
    return {row.seq: row.hash for row in await scoped.rows(Head, _SQL["hashes"], {"seqs": list(seqs)})}


async def agents(database: Database) -> list[str]:
    """As administrator: every agent that has a history or should have one, in alphabetical order."""
    async with database.catalog() as connection:
        return [agent for (agent,) in await (await connection.execute(_SQL["agents"])).fetchall()]


async def exported_head(scoped: Scoped) -> Head | None:
    """The newest row of the agent's history, for a person; None: there is none."""
    found = await scoped.rows(Head, _SQL["exported_head"], {})
    return found[0] if found else None


async def exported(scoped: Scoped, own: Sequence[str], *, after: int, last: int) -> list[ChainRow]:
    """Rows of the chain, after the one up to the other; a person's own with all there is of them."""
    values = {"own": list(own), "after": after, "last": last}
    return await scoped.rows(ChainRow, _SQL["exported"], values)
