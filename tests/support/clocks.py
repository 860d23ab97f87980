"""A clock that is advanced for all that a database has stored."""

import psycopg
from psycopg import sql

_TIMES = """
    select table_schema, table_name, column_name
      from information_schema.columns join information_schema.tables using (table_schema, table_name)
     where table_schema in ('mnemic', 'mnemic_jobs') and table_type = 'BASE TABLE'
       and data_type = 'timestamp with time zone' and is_generated = 'NEVER'
"""


def advance_clock(superuser: psycopg.Connection, minutes: int) -> None:
    """Move every stored time so many minutes into the past, in one transaction: to all processes, they have passed."""
    with superuser.transaction():
        superuser.execute("set local session_replication_role = replica")
        for schema, table, column in superuser.execute(_TIMES).fetchall():
            shift = sql.SQL(
                "update {table} set {column} = {column} - make_interval(mins => %s) where {column} is not null"
            )
            named = {"table": sql.Identifier(schema, table), "column": sql.Identifier(column)}
            superuser.execute(shift.format(**named), (minutes,))
        # whole minutes as numbers: a process that starts now sweeps at once, as it would after such a time
        superuser.execute("delete from mnemic_jobs.procrastinate_periodic_defers")
