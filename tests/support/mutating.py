"""Functions of the database made wrong on purpose, for controls."""

from typing import Any

import psycopg


def mutate(connection: psycopg.Connection, function: str, text: str, wrong: str) -> None:
    """Replaces a function by itself with another text in it."""
    found = connection.execute("select pg_get_functiondef(%s::regproc)", (f"mnemic.{function}",)).fetchone()
    assert found
    assert found[0].count(text) == 1, "what is to be made wrong stands there once"
    changed: Any = found[0].replace(text, wrong)
    connection.execute(changed)
