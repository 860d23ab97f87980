"""Tokens used, by agent, day, step and model."""

from dataclasses import asdict

from mnemic.state.kinds import Usage
from mnemic.storage.statements import load_statements
from mnemic.storage.transaction import ScopedTransaction

_SQL = load_statements("usage")


async def record(scoped: ScopedTransaction, usage: Usage) -> None:
    """Adds one step's tokens to today's."""
    await scoped.execute(_SQL["record"], asdict(usage))


async def totals(scoped: ScopedTransaction) -> list[Usage]:
    """The agent's tokens by step and model."""
    return await scoped.rows(Usage, _SQL["totals"], {})
