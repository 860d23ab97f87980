"""Who governs: the person concerned, or an administrator. It decides whose memories, and which database role."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Self, TypeVar

from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity, scope_key
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction

Result = TypeVar("Result")


@dataclass(frozen=True)
class Actor:
    """One who governs memories of an agent."""

    database: Database
    identity: Identity
    #: A person's own scope keys: those of the user and the session. None: an administrator, who has all of the agent's.
    keys: tuple[str, ...] | None

    @classmethod
    def person(cls, database: Database, identity: Identity) -> Self:
        """The person concerned, as the service's role.

        Raises:
            InvalidInputError: no user and no session in the identity.
        """
        keys = own_keys(identity)
        if not keys:
            raise InvalidInputError("user_id: a person's own memories need the person's id, or a session")
        return cls(database, identity, keys)

    @classmethod
    def administrator(cls, database: Database, agent_id: str, name: str) -> Self:
        """An administrator of an agent, as the administrators' role, which has no right to any content."""
        return cls(database, Identity(agent_id=agent_id, actor_id=name), None)

    @property
    def administers(self) -> bool:
        """Whether it is an administrator."""
        return self.keys is None

    def transaction(self) -> AbstractAsyncContextManager[ScopedTransaction]:
        """A transaction of the actor's role."""
        return self.database.scoped(self.identity, administers=self.administers)

    async def write(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """What `act` returns once its transaction is committed; done again where Postgres gave it up for another."""
        return await self.database.write(self.identity, act, administers=self.administers)


def own_keys(identity: Identity) -> tuple[str, ...]:
    """The scope keys that are a person's own; what groups and the agent share is for administrators."""
    user = (scope_key("user", identity.user_id),) if identity.user_id else ()
    session = (scope_key("session", identity.session_id),) if identity.session_id else ()
    return user + session
