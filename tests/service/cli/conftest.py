"""The command line as a user meets it, on this worker's database."""

from collections.abc import Callable

import pytest
from typer.testing import Result

from tests.support.commands import invoke
from tests.support.fixtures import model as model
from tests.support.server import Clone

Command = Callable[..., Result]


@pytest.fixture
def mnemic(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`mnemic("form", "chat.jsonl")` runs a command; a traceback fails the test by itself."""
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")

    def run(*words: object) -> Result:
        return invoke(*map(str, words))

    return run
