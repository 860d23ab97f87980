"""Check the set-up that isolation, protection and audit rest on, as the service's own role; run at every start."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mnemic.state.errors import DatabaseSetupError
from mnemic.storage.connection import is_pooled, pooler_mode
from mnemic.storage.database import Database
from mnemic.storage.schema import QUEUE_SCHEMA, QUEUE_TABLES, RULES, SERVICE_ROLE
from mnemic.storage.transaction import load_statements
from mnemic.storage.violations import SchemaViolation, find_violations

_SQL = load_statements("doctor")
#: Functions and policies are in the package; a migration creates them again if their record is gone.
_ANEW: Final = f"let a superuser delete the row '{RULES}' from mnemic.migrations, then run `mnemic db migrate`"
#: Every check, and the remedy if no single statement repairs the fault.
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
    #: The problem and its remedy; empty if the check passed.
    remedy: str = ""
    #: A remark on a result that is no fault.
    note: str = ""


async def check(database: Database) -> list[Finding]:
    """Return the results of all checks of the database's set-up.

    Raises:
        DatabaseUnavailableError: if the database cannot be reached.
    """
    async with database.catalog() as connection:
        pooled = await is_pooled(connection)
        violations, notes = await find_violations(connection)
    found = defaultdict(list, violations)
    setting = database.settings.pooler
    mode = None
    if pooled:
        mode = await pooler_mode(database.dsn)
    if setting == "none" and mode == "transaction":
        found["pooler"].append(("a pooler whose clients share server connections and their prepared statements", None))
    prepared = "on" if setting == "none" or (setting == "auto" and mode is None) else "off"
    kind = "none found"
    if mode:
        kind = f"one in {mode} mode"
    notes["pooler"].append(f"{kind}; prepared statements {prepared}")
    findings: list[Finding] = []
    for name, advice in _REMEDIES.items():
        note = ""
        if not found[name]:
            note = ", ".join(sorted(notes[name]))
        findings.append(Finding(name, not found[name], _remedy(found[name], advice), note))
    return findings


async def check_vectors(database: Database, embedder: str) -> Finding:
    """Report whether the current embedder made all vectors. Entries of another one, or without a vector, are no fault.

    Args:
        database: the service's database.
        embedder: name of the embedder, without the length of its vectors if only the first vectors show it.
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
    """Refuse a database with an unsafe set-up.

    Raises:
        DatabaseSetupError: if a check has failed; the message has all problems and their remedies.
        DatabaseUnavailableError: if the database cannot be reached.
    """
    lines = ""
    for finding in await check(database):
        if not finding.ok:
            lines += f"\n- {finding.name}: {finding.remedy}"
    if lines:
        raise DatabaseSetupError(f"the database is not set up safely:{lines}")


def _remedy(violations: Sequence[SchemaViolation], advice: str) -> str:
    """Return the problems and their remedies: statements to run, or advice if there is no statement."""
    statements: dict[str, None] = {}
    repairable: list[str] = []
    others: list[str] = []
    for problem, statement in violations:
        if statement:
            statements[f"`{statement}`"] = None
            repairable.append(problem)
        else:
            others.append(problem)
    remedies: list[str] = []
    if repairable:
        remedies.append(f"{', '.join(repairable)}: a superuser runs {', '.join(statements)}")
    if others:
        remedies.append(f"{', '.join(others)}: {advice}")
    return "; ".join(remedies)
