"""Broken set-ups: roles of a test's own, what the doctor says of a database, its remedies carried out to the letter."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import sql

from mnemic.state.errors import DatabaseSetupError
from mnemic.storage.database import Database
from mnemic.storage.doctor import check, require_sound
from tests.support.server import SERVICE_PASSWORD, Clone


async def refusal(db: Database) -> tuple[dict[str, str], str]:
    """The remedies by the names of the failed checks, and the message that refuses the database."""
    broken = {finding.name: finding.remedy for finding in await check(db) if not finding.ok}
    with pytest.raises(DatabaseSetupError) as refused:
        await require_sound(db)
    told = str(refused.value)
    assert all(f"- {name}: {remedy}" in told for name, remedy in broken.items())
    return broken, told


def carry_out(clone: Clone, told: str) -> list[str]:
    """Runs what `a superuser runs`, as one would who copies it from the message."""
    listed = re.findall(r"a superuser runs ((?:`[^`]*`(?:, )?)+)", told)
    statements = [statement for part in listed for statement in re.findall(r"`([^`]*)`", part)]
    with clone.as_superuser() as connection:
        for statement in statements:
            connection.execute(statement.encode())
    return statements


@contextmanager
def other_role(clone: Clone, *rights: str) -> Iterator[str]:
    """A role of its own, since what is done to a role of Mnemic's would be done to every database of the server.

    Args:
        rights: statements that give the role `{role}` what it should not have.
    """
    name = f"someone_{uuid.uuid4().hex[:8]}"
    role = sql.Identifier(name)
    with clone.as_superuser() as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(role, SERVICE_PASSWORD))
        try:
            connection.execute(sql.SQL("alter role {} set search_path = mnemic, public").format(role))
            for right in rights:
                connection.execute(right.format(role=name).encode())
            yield name
        finally:
            connection.execute(sql.SQL("drop owned by {}").format(role))
            connection.execute(sql.SQL("drop role {}").format(role))
