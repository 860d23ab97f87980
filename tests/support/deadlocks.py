"""Makes a deadlock show as one, and soon."""

from mnemic.state.settings import Settings
from tests.support.server import Clone

#: Waits for a row for so long that Postgres looks for a deadlock first.
PATIENT = Settings(pool_size=8, lock_timeout_seconds=20)


def see_deadlocks_quickly(clone: Clone) -> None:
    """After 20 ms instead of a second, on connections made from now on."""
    with clone.as_superuser() as connection:
        connection.execute(f'alter role mnemic_app in database "{clone.name}" set deadlock_timeout = 20')
