"""What is done to the database as a whole, and before or while `Mnemic.open` refuses it."""

from pathlib import Path
from typing import Any

from mnemic.state.settings import Settings
from mnemic.storage.doctor import Finding, check
from mnemic.storage.dump import dump_database
from mnemic.storage.opening import open_database, set_up_database


async def doctor(**settings: Any) -> list[Finding]:
    """Every check of the database's set-up, passed or not; also of one that `Mnemic.open` refuses.

    Raises:
        ConfigurationError: a setting does not fit.
        DatabaseUnavailableError: no connection.
    """
    async with open_database(Settings(**settings), sound=False) as database:
        return await check(database)


async def set_up(**settings: Any) -> list[str]:
    """Runs the pending migrations and returns the names of those that ran.

    Raises:
        ConfigurationError: a setting does not fit, or MNEMIC_MIGRATION_URL is missing.
        DatabaseSetupError: the server does not allow it; the message says what to do.
        DatabaseUnavailableError: no connection.
    """
    return await set_up_database(Settings(**settings))


async def dump(target: Path, **settings: Any) -> int:
    """Dumps the whole database into a file for `pg_restore` and returns its bytes.

    Raises:
        ConfigurationError: no `pg_dump`, or MNEMIC_MIGRATION_URL is missing.
        InvalidInputError: the file cannot be written.
        DatabaseUnavailableError: `pg_dump` failed.
    """
    return await dump_database(Settings(**settings), target)
