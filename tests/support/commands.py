"""`mnemic` in this process, as a user types it."""

from functools import cache

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from mnemic.service.cli.app import app

# the runner reads the signatures of all commands at every call, which is a third of what one takes; once will do
pytest.MonkeyPatch().setattr("typer.testing._get_command", cache(get_command))


def invoke(*words: str, catch_exceptions: bool = False, typed: str | bytes | None = None) -> Result:
    """Runs a command; what it does not catch itself is raised, or is the result's. What is typed comes from a pipe."""
    return CliRunner().invoke(app, words, input=typed, catch_exceptions=catch_exceptions)
