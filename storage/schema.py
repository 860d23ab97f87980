"""The schema: numbered files of tables, each applied once, and rules, applied again whenever their text changes.

The policies among the rules come from one list. Every policy compares a row with settings of the transaction. As scalar
sub-selects they become index conditions. The cast is inside the sub-select, so that a list is read once per statement
and not for every row.
"""

import hashlib
import re
from functools import cache
from importlib import resources
from typing import Final, NamedTuple, get_args

from langgraph.checkpoint.postgres.base import MIGRATIONS

from mnemic.state.events import EventStatus
from mnemic.state.kinds import KINDS, LEASED_WORK, PROVENANCES, RELATION_TYPES, ROLES, STATES
from mnemic.state.refinement import Ended
from mnemic.storage.sql_text import literals, read_folder

#: The record's name for functions, triggers, policies and rights, which are applied together.
RULES: Final = "rules"
#: The record's name for the job queue's tables.
QUEUE_TABLES: Final = "procrastinate 3.10"
#: Before and after the functions.
_DROP, _RIGHTS = "drop.sql", "rights.sql"
#: A function's name and its body; an expression has none.
_FUNCTION = re.compile(
    r"^create (?:function|procedure) (\w+)\((?:(?!^create ).)*?\$\$(.*?)\$\$", re.DOTALL | re.MULTILINE
)

OWNER_ROLE = "mnemic_owner"
SERVICE_ROLE = "mnemic_app"
ADMIN_ROLE = "mnemic_admin"
#: Schema of the job queue's tables, which hold names of jobs, ids of agents and scope keys.
QUEUE_SCHEMA = "mnemic_jobs"

_KEYS = "(select nullif(current_setting('mnemic.scope_keys', true), '')::text[])"
_AGENT = "agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))"
_THREADS = "(select nullif(current_setting('mnemic.threads', true), ''))"
_OF_THREADS = f"starts_with(thread_id, {_THREADS})"
#: A relation is visible only with both of its ends.
_OTHER_END = "coalesce(after ->> 'to_scope_key', before ->> 'to_scope_key', scope_key)"
#: Rows of the history that an allowlist permits.
_SHOWN = (
    "((select nullif(current_setting('mnemic.categories', true), '')) is null or exists ("
    "select from history h where h.agent_id = history_contents.agent_id and h.revision = history_contents.revision))"
)

#: Rows that an author has withdrawn from others are visible to that author alone.
_OWN_AGAIN = f"'user:' || withdrawn_by = any ({_KEYS}::text[])"
_NOT_WITHDRAWN = (
    " and not exists (select from withdrawn w where w.agent_id = history_contents.agent_id"
    f" and w.revision = history_contents.revision and ('user:' || w.withdrawn_by = any ({_KEYS}::text[])) is not true)"
)


def _of_keys(key: str = "scope_key") -> str:
    return f"{_AGENT} and {key} = any ({_KEYS}::text[])"


def _allowed(category: str = "category") -> str:
    """Return the condition that limits rows to the categories of an allowlist, if that setting has a value."""
    listed = "select nullif(current_setting('mnemic.categories', true), '')"
    return f" and (({listed}) is null or {category} = any (({listed}::text[])::text[]))"


#: Columns whose values are listed in Python, each with its list.
LISTED_COLUMNS: Final = (
    ("memories", "kind", KINDS),
    ("memories", "state", STATES),
    ("memories", "provenance", PROVENANCES),
    ("messages", "role", ROLES),
    ("relations", "relation_type", RELATION_TYPES),
    ("leases", "work", LEASED_WORK),
    ("refinements", "ended", get_args(Ended)),
    ("events", "status", get_args(EventStatus)),
)


class Policy(NamedTuple):
    """The rows of one table that one role sees and writes."""

    table: str
    condition: str
    role: str = SERVICE_ROLE
    command: str = "all"

    @property
    def name(self) -> str:
        """Name of the policy in the database."""
        if self.role == SERVICE_ROLE:
            return "service"
        return "administrator"


POLICIES: Final = (
    Policy("agents", _AGENT),
    Policy("token_usage", _AGENT),
    Policy("job_failures", _AGENT),
    Policy("schedules", _AGENT),
    Policy("events", _AGENT),
    Policy("checked_pairs", _AGENT),
    Policy("maintenance_runs", _AGENT),
    Policy("scopes", _of_keys()),
    Policy("leases", _of_keys()),
    Policy("sources", _of_keys()),
    Policy("memory_use", _of_keys()),
    Policy("refinements", _of_keys()),
    Policy("erasures", _of_keys(), command="select"),
    Policy("sessions", _of_keys("'session:' || session_id")),
    Policy("thread_revisions", _of_keys("'session:' || session_id")),
    Policy("relations", f"{_of_keys()} and to_scope_key = any ({_KEYS}::text[])"),
    Policy("memories", f"{_of_keys()} and (withdrawn_by is null or {_OWN_AGAIN}){_allowed()}"),
    Policy("withdrawn", _AGENT, command="select"),
    Policy("entries", _of_keys() + _allowed()),
    # by its speaker, and by the runs of its own session
    Policy("messages", f"{_AGENT} and array[scope_key, 'session:' || session_id] && {_KEYS}" + _allowed("'message'")),
    Policy("history", _of_keys() + _allowed(), command="select"),
    Policy(
        "history_contents",
        f"{_of_keys()} and {_OTHER_END} = any ({_KEYS}::text[]) and {_SHOWN}{_NOT_WITHDRAWN}",
        command="select",
    ),
    Policy("heads", _AGENT, command="select"),
    # threads of one agent with one user: their ids begin with the value of the setting
    Policy("supervisor_checkpoints", f"thread_prefix(agent_id, user_id) = {_THREADS}"),
    Policy("checkpoints", _OF_THREADS),
    Policy("checkpoint_blobs", _OF_THREADS),
    Policy("checkpoint_writes", _OF_THREADS),
    # administrators see events, times and ids; they have no right to any content
    Policy("history", _AGENT, role=ADMIN_ROLE, command="select"),
    Policy("heads", _AGENT, role=ADMIN_ROLE, command="select"),
    Policy("refinements", _AGENT, role=ADMIN_ROLE, command="select"),
    Policy("leases", _AGENT, role=ADMIN_ROLE, command="select"),
)


def _isolation() -> str:
    """Return the statements that enable row security and make every policy."""
    tables = dict.fromkeys(policy.table for policy in POLICIES)
    statements: list[str] = []
    for table in [*tables, "erasing"]:  # only functions of the owner read and write the last one
        statements.append(f"alter table {table} enable row level security, force row level security;")
        statements.append(f"create policy owner on {table} to {OWNER_ROLE} using (true) with check (true);")
    for policy in POLICIES:
        target = f"{policy.name} on {policy.table} for {policy.command} to {policy.role}"
        statements.append(f"create policy {target} using ({policy.condition});")
    return "\n".join(statements)


def _list_checks() -> str:
    """Return the statements that check listed columns. An equal check stays, because adding one scans its table."""
    statements: list[str] = []
    for table, column, values in LISTED_COLUMNS:
        elements = literals(values).replace(", ", "::text, ") + "::text"
        check = f"CHECK (({column} = ANY (ARRAY[{elements}])))"
        quoted = check.replace("'", "''")
        statements.append(f"call check_column('{table}', '{column}', '{quoted}');")
    return "\n".join(statements)


class SchemaFile(NamedTuple):
    """Statements that are applied in one transaction."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Digest of the text, which shows whether it was changed since it was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def schema_files() -> tuple[SchemaFile, ...]:
    """Return the tables of LangGraph's checkpointer, our own files in their order, and the rules."""
    files = [SchemaFile(QUEUE_TABLES, _queue_tables())]
    for version, text in enumerate(MIGRATIONS):
        # in a transaction no index is made concurrently, so a later one on a live table makes its writers wait
        files.append(SchemaFile(f"langgraph-checkpoint-postgres {version}", text.replace("CONCURRENTLY", "")))
    for name, text in sorted(read_folder("tables").items()):
        files.append(SchemaFile(name, text))
    files.append(SchemaFile(RULES, _rules()))
    return tuple(files)


def _queue_tables() -> str:
    """Return the statements that create procrastinate's tables in a schema of their own, for the service to use."""
    tables = resources.files("procrastinate.sql").joinpath("schema.sql").read_text(encoding="utf-8")
    granted = ""
    for kind in ("tables", "sequences", "functions"):
        granted += f"grant all on all {kind} in schema {QUEUE_SCHEMA} to {SERVICE_ROLE};"
    return (
        "select set_config('mnemic.search_path', current_setting('search_path'), true);"
        f"set local search_path = {QUEUE_SCHEMA};{tables};"
        f"grant usage on schema {QUEUE_SCHEMA} to {SERVICE_ROLE};{granted}"
        "select set_config('search_path', current_setting('mnemic.search_path'), true)"
    )


@cache
def _rules() -> str:
    texts = read_folder("functions")
    drop, rights = texts.pop(_DROP), texts.pop(_RIGHTS)
    functions = [text for _, text in sorted(texts.items())]
    return "\n".join([drop, *functions, _list_checks(), _isolation(), rights])


def bodies() -> dict[str, str]:
    """Return the body of each function that has one."""
    return dict(_FUNCTION.findall(_rules()))
