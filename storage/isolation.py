"""Which rows a transaction sees: one list, from which the policies are made and by which the doctor judges them.

Every policy compares a row with settings of the transaction. As scalar sub-selects they become index conditions; the
cast stands inside, so that a list is read once for a statement and not for every row.
"""

import re
from typing import Final, NamedTuple

OWNER_ROLE = "mnemic_owner"
SERVICE_ROLE = "mnemic_app"
ADMIN_ROLE = "mnemic_admin"

_KEYS = "(select nullif(current_setting('mnemic.scope_keys', true), '')::text[])"
_AGENT = "agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))"
_THREADS = "(select nullif(current_setting('mnemic.threads', true), ''))"


#: A relation is seen by who sees both its ends.
_OTHER_END = "coalesce(after ->> 'to_scope_key', before ->> 'to_scope_key', scope_key)"
#: Under an allowlist, what the history shows of it.
_TOLD = (
    "((select nullif(current_setting('mnemic.categories', true), '')) is null or exists ("
    "select from history h where h.agent_id = history_contents.agent_id and h.seq = history_contents.seq))"
)


def _of_keys(key: str = "scope_key") -> str:
    return f"{_AGENT} and {key} = any ({_KEYS}::text[])"


def _allowed(category: str = "category") -> str:
    """Under an allowlist only rows of its categories exist; without that setting, all of them do."""
    listed = "select nullif(current_setting('mnemic.categories', true), '')"
    return f" and (({listed}) is null or {category} = any (({listed}::text[])::text[]))"


class Policy(NamedTuple):
    """The rows of one table that one role sees and writes."""

    table: str
    condition: str
    role: str = SERVICE_ROLE
    command: str = "all"

    @property
    def name(self) -> str:
        """Of the policy in the database."""
        return "service" if self.role == SERVICE_ROLE else "administrator"

    @property
    def settings(self) -> set[str]:
        """The settings that it compares a row with."""
        return set(re.findall(r"mnemic\.(\w+)", self.condition))


POLICIES: Final = (
    Policy("agents", _AGENT),
    Policy("token_usage", _AGENT),
    Policy("scopes", _of_keys()),
    Policy("leases", _of_keys()),
    Policy("sources", _of_keys()),
    Policy("memory_use", _of_keys()),
    Policy("refinements", _of_keys()),
    Policy("erasures", _of_keys(), command="select"),
    Policy("sessions", _of_keys("'session:' || session_id")),
    Policy("thread_revisions", _of_keys("'session:' || session_id")),
    Policy("relations", f"{_of_keys()} and to_scope_key = any ({_KEYS}::text[])"),
    Policy("memories", _of_keys() + _allowed()),
    Policy("entries", _of_keys() + _allowed()),
    # by its speaker, and by the runs of its own session
    Policy("messages", f"{_AGENT} and array[scope_key, 'session:' || session_id] && {_KEYS}" + _allowed("'message'")),
    Policy("history", _of_keys() + _allowed(), command="select"),
    Policy("history_contents", f"{_of_keys()} and {_OTHER_END} = any ({_KEYS}::text[]) and {_TOLD}", command="select"),
    Policy("heads", _AGENT, command="select"),
    # the threads of one agent with one user: those whose ids begin as the setting says
    Policy("supervisor_checkpoints", f"threads_of(agent_id, user_id) = {_THREADS}"),
    *(
        Policy(table, f"starts_with(thread_id, {_THREADS})")
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    ),
    # administrators see what happened, when, and to which ids; they have no right to any content
    *(
        Policy(table, _AGENT, role=ADMIN_ROLE, command="select")
        for table in ("history", "heads", "refinements", "leases")
    ),
)
#: Only functions of the owner read and write these.
_OWNERS_ALONE: Final = ("erasing",)


def isolation() -> str:
    """The statements that enable row security and make every policy."""
    tables = dict.fromkeys([policy.table for policy in POLICIES] + [*_OWNERS_ALONE])
    return "\n".join(
        [
            *(f"alter table {table} enable row level security, force row level security;" for table in tables),
            *(f"create policy owner on {table} to {OWNER_ROLE} using (true) with check (true);" for table in tables),
            *(
                f"create policy {policy.name} on {policy.table} for {policy.command} to {policy.role}"
                f" using ({policy.condition});"
                for policy in POLICIES
            ),
        ]
    )
