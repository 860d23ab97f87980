"""Checks the set-up that isolation, protection and audit rest on, as the service's own role; run at every start."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mnemic.state.errors import DatabaseSetupError
from mnemic.storage.connection import is_pooled, pooler_mode
from mnemic.storage.database import Database
from mnemic.storage.schema import QUEUE_SCHEMA, QUEUE_TABLES, RULES, SERVICE_ROLE
from mnemic.storage.transaction import load_statements
from mnemic.storage.violations import SchemaViolation, find_offences

_SQL = load_statements("doctor")
#: Functions and policies are in the package, and made anew where the record of them is gone.
_ANEW: Final = f"let a superuser delete the row '{RULES}' from mnemic.migrations, then run `mnemic db migrate`"
#: Every check, and what to do if no single statement mends the fault.
_REMEDIES: Final = {
    "server": "row security leaks there: install Postgres 15.14, 16.10, 17.6 or newer, the number is what counts, and "
    "restart the server",
    "pgvector": "install pgvector 0.8 or newer on the server, then a superuser runs `create extension vector` or "
    "`alter extension vector update` in this database",
    "encoding": "create the database with `encoding 'UTF8'` and restore it there",
    "migrations": "run `mnemic db migrate` with the release, of Mnemic or of langgraph-checkpoint-postgres, that made "
    "the database, or a newer one",
    "search path": "run `mnemic db migrate`, which sets it for the roles; a dump leaves it out",
    "service role": f"let MNEMIC_DATABASE_URL log in as {SERVICE_ROLE}",
    "powers": "",
    "ownership": "",
    "tables": "restore the database from a dump made before the change",
    "row security": "",
    "policies": _ANEW,
    "rules": "",
    "views": "",
    "attachments": "",
    "pooler": "set MNEMIC_POOLER to auto, or name a port with session pooling",
    "privileges": "",
    "functions": _ANEW,
    "triggers": "",
    "queue": f"it holds no memories, and its jobs come again by themselves: let a superuser run "
    f"`drop schema {QUEUE_SCHEMA} cascade` and delete the row '{QUEUE_TABLES}' from mnemic.migrations, then run "
    "`mnemic db migrate`",
    "settings": "",
    "replication role": "the triggers do not run: a superuser takes the setting back where it was made, with "
    "`alter role ... reset session_replication_role` or `alter database ... reset session_replication_role`",
}


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    ok: bool
    #: What was found and what to do; empty when the check passed.
    remedy: str = ""
    #: What was found that is no fault.
    note: str = ""


async def check(database: Database) -> list[Finding]:
    """All checks of the database's set-up, passed or not.

    Raises:
        DatabaseUnavailableError: the database cannot be reached.
    """
    async with database.catalog() as connection:
        pooled = await is_pooled(connection)
        offences, notes = await find_offences(connection)
    found = defaultdict(list, offences)
    mode, setting = await pooler_mode(database.dsn) if pooled else None, database.settings.pooler
    if setting == "none" and mode == "transaction":
        found["pooler"].append(("a pooler whose clients share server connections and their prepared statements", None))
    prepared = "on" if setting == "none" or (setting == "auto" and mode is None) else "off"
    notes["pooler"].append(f"{f'one in {mode} mode' if mode else 'none found'}; prepared statements {prepared}")
    findings: list[Finding] = []
    for name, advice in _REMEDIES.items():
        note = "" if found[name] else ", ".join(sorted(notes[name]))
        findings.append(Finding(name, not found[name], _remedy(found[name], advice), note))
    return findings


async def check_vectors(database: Database, embedder: str) -> Finding:
    """Whether the embedder in use made all vectors. Entries of another embedder, or without a vector, are no fault.

    Args:
        database: the service's database.
        embedder: its name, which lacks the length where that is known from the first vectors on.
    """
    async with database.catalog() as connection:
        rows = await (await connection.execute(_SQL["vectors"])).fetchall()
    stored: dict[str, int] = dict(rows)
    pending = stored.pop("", 0)
    others = [f"{count:,} of {model}" for model, count in stored.items() if not f"{model}:".startswith(f"{embedder}:")]
    note = f"all of {embedder}"
    if others:
        note = f"not of {embedder}, so found by words alone until `mnemic reembed` is through: {', '.join(others)}"
    if pending:
        note += f"; without a vector, so found by words alone until `mnemic embed` or a formation: {pending:,}"
    return Finding("vectors", ok=True, note=note)


async def require_sound(database: Database) -> None:
    """Refuses a database whose set-up would not keep what Mnemic promises.

    Raises:
        DatabaseSetupError: with everything that has to be mended.
        DatabaseUnavailableError: the database cannot be reached.
    """
    broken = [finding for finding in await check(database) if not finding.ok]
    if broken:
        lines = "".join(f"\n- {finding.name}: {finding.remedy}" for finding in broken)
        raise DatabaseSetupError(f"the database is not set up safely:{lines}")


def _remedy(offences: Sequence[SchemaViolation], advice: str) -> str:
    """Return the problems and their remedies: statements to run, or advice if there is no statement."""
    statements = dict.fromkeys(f"`{statement}`" for _, statement in offences if statement)
    mended = ", ".join(offence for offence, statement in offences if statement)
    others = ", ".join(offence for offence, statement in offences if not statement)
    by_statement = [f"{mended}: a superuser runs {', '.join(statements)}"] if mended else []
    return "; ".join(by_statement + ([f"{others}: {advice}"] if others else []))
