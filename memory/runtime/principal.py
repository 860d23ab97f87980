"""Principals that govern memories: the person concerned, or an administrator, each with a database role."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Self, TypeVar

from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction

Result = TypeVar("Result")


@dataclass(frozen=True)
class Principal:
    """Person or administrator in whose name an operation governs memories of an agent."""

    database: Database
    identity: Identity
    #: Scope keys of a person: those of the user and the session. None for an administrator: all of the agent.
    keys: tuple[str, ...] | None
    administers: bool = False

    @classmethod
    def person(cls, database: Database, identity: Identity) -> Self:
        """Return the person concerned, with the database role of the service.

        Raises:
            InvalidInputError: if the identity has no user and no session.
        """
        # what groups and the agent share is for administrators
        keys = tuple(key for key in identity.scope_keys if key.startswith(("user:", "session:")))
        if not keys:
            raise InvalidInputError(
                "user_id: it is missing; set it, or the session_id, to name whose memories these are"
            )
        return cls(database, identity, keys)

    @classmethod
    def administrator(cls, database: Database, agent_id: str, name: str) -> Self:
        """Return an administrator of an agent, with the administrators' database role, which may read no content."""
        return cls(database, Identity(agent_id=agent_id, actor_id=name), None, administers=True)

    def transaction(self) -> AbstractAsyncContextManager[ScopedTransaction]:
        """Return a transaction with the principal's database role."""
        return self.database.transaction(self.identity, administers=self.administers, also=self._concerned)

    async def write(self, change: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """Return the result of a change after its commit; repeat the change if Postgres gave it up for another one."""
        return await self.database.write(self.identity, change, administers=self.administers, also=self._concerned)

    @property
    def _concerned(self) -> tuple[str, ...]:
        """Scope keys that limit an administrator; a person's transaction has only the scope keys of the identity."""
        if not self.administers:
            return ()
        return self.keys or ()
