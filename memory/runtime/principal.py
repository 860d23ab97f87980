"""Who governs: the person concerned, or an administrator. It decides whose memories, and which database role."""

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
    """One who governs memories of an agent."""

    database: Database
    identity: Identity
    #: A person's own scope keys: those of the user and the session. None: all of the agent's, for an administrator.
    keys: tuple[str, ...] | None
    administers: bool = False

    @classmethod
    def person(cls, database: Database, identity: Identity) -> Self:
        """The person concerned, as the service's role.

        Raises:
            InvalidInputError: no user and no session in the identity.
        """
        # what groups and the agent share is for administrators
        keys = tuple(key for key in identity.scope_keys if key.startswith(("user:", "session:")))
        if not keys:
            raise InvalidInputError("user_id: a person's own memories need the person's id, or a session")
        return cls(database, identity, keys)

    @classmethod
    def administrator(cls, database: Database, agent_id: str, name: str) -> Self:
        """An administrator of an agent, as the administrators' role, which has no right to any content."""
        return cls(database, Identity(agent_id=agent_id, actor_id=name), None, administers=True)

    def transaction(self) -> AbstractAsyncContextManager[ScopedTransaction]:
        """A transaction of the actor's role."""
        return self.database.transaction(self.identity, administers=self.administers, also=self._concerned)

    async def write(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """What `act` returns once its transaction is committed; done again where Postgres gave it up for another."""
        return await self.database.write(self.identity, act, administers=self.administers, also=self._concerned)

    @property
    def _concerned(self) -> tuple[str, ...]:
        """What an administrator narrows an act to; a person's transaction has the identity's scope keys alone."""
        return (self.keys or ()) if self.administers else ()
