"""The check of the set-up on which isolation, protection and audit rest, by the service's role at every start."""

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
#: Every check, and the remedy of a fault that no single statement mends.
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
    #: The fault and its remedy; empty if the check passed.
    remedy: str = ""
    #: A result that is no fault.
    note: str = ""


async def check(database: Database) -> list[Finding]:
    """Return the results of all checks of the database's set-up.

    Raises:
        DatabaseUnavailableError: if the database cannot be reached.
    """
    async with database.catalog() as connection:
        pooled = await is_pooled(connection)
        offences, notes = await find_offences(connection)
    found = defaultdict(list, offences)
    mode = await pooler_mode(database.dsn) if pooled else None
    setting = database.settings.pooler
    if setting == "none" and mode == "transaction":
        found["pooler"].append(("a pooler whose clients share server connections and their prepared statements", None))
    is_prepared = setting == "none" or (setting == "auto" and mode is None)
    pooler = f"one in {mode} mode" if mode else "none found"
    prepared = "on" if is_prepared else "off"
    notes["pooler"].append(f"{pooler}; prepared statements {prepared}")
    findings: list[Finding] = []
    for name, advice in _REMEDIES.items():
        if found[name]:
            findings.append(Finding(name, ok=False, remedy=_remedy(found[name], advice)))
        else:
            findings.append(Finding(name, ok=True, note=", ".join(sorted(notes[name]))))
    return findings


async def check_vectors(database: Database, embedder: str) -> Finding:
    """Return the numbers of entries with another embedder's vector, or without one; they are no fault.

    Args:
        database: of the service.
        embedder: name of the embedder in use; it lacks the length of the vectors if only they have it.
    """
    async with database.catalog() as connection:
        rows = await (await connection.execute(_SQL["vectors"])).fetchall()
    stored: dict[str, int] = dict(rows)
    pending = stored.pop("", 0)
    others: list[str] = []
    for model, count in stored.items():
        if not f"{model}:".startswith(f"{embedder}:"):
            others.append(f"{count:,} of {model}")
    note = f"all of {embedder}"
    if others:
        note = f"not of {embedder}, so found by words alone until `mnemic reembed` is through: {', '.join(others)}"
    if pending:
        note += f"; without a vector, so found by words alone until `mnemic embed` or a formation: {pending:,}"
    return Finding("vectors", ok=True, note=note)


async def require_sound(database: Database) -> None:
    """Refuse a database without a safe set-up.

    Raises:
        DatabaseSetupError: if a check fails; the message has every fault.
        DatabaseUnavailableError: if the database cannot be reached.
    """
    lines = ""
    for finding in await check(database):
        if not finding.ok:
            lines += f"\n- {finding.name}: {finding.remedy}"
    if lines:
        raise DatabaseSetupError(f"the database is not set up safely:{lines}")


def _remedy(offences: Sequence[SchemaViolation], advice: str) -> str:
    """Return the faults with the statements that mend them, or with the advice if there is no statement."""
    mended: list[str] = []
    statements: dict[str, None] = {}
    others: list[str] = []
    for offence, statement in offences:
        if statement:
            mended.append(offence)
            statements[f"`{statement}`"] = None
        else:
            others.append(offence)
    remedies: list[str] = []
    if mended:
        remedies.append(f"{', '.join(mended)}: a superuser runs {', '.join(statements)}")
    if others:
        remedies.append(f"{', '.join(others)}: {advice}")
    return "; ".join(remedies)
