"""What the service's role really sent to the server, read from the server's own log."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mnemic.storage.schema import SERVICE_ROLE
from tests.support.server import Clone

_STATEMENT = re.compile(r"^@(\S*) (\S*)@ LOG:  (?:statement|execute [^:]+): (.*?)(?=^@|\Z)", re.MULTILINE | re.DOTALL)


@contextmanager
def recorded_statements(clone: Clone) -> Iterator[list[str]]:
    """Fills its list, at the end of the block, with every statement of the service's role, BEGIN and COMMIT included.

    A backend writes the line before it runs the statement, so nothing that has answered is missing.
    """
    log = clone.server.log
    if log is None:
        pytest.skip("the log of MNEMIC_TEST_DSN's server cannot be read")
    start = log.stat().st_size
    sent: list[str] = []
    yield sent
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    sent += [
        statement.replace("\n\t", "\n").strip()  # the log indents a statement's further lines
        for database, role, statement in _STATEMENT.findall(text)
        if (database, role) == (clone.name, SERVICE_ROLE)
    ]
