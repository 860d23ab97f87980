"""What administrators do, blind: roll back, protect, check the audit, purge. They see ids, kinds, states, counts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID

from mnemic.service.asked import AGENT_ID, OPERATION_IDS, OPERATIONS, PAST, ROLLING, SESSION_SINCE, SWITCH
from mnemic.service.governance import rolling_back
from mnemic.service.governance.administration_audit import AuditOfAgents
from mnemic.service.governance.administration_refining import RefinementOfAgents
from mnemic.state.checking import checked
from mnemic.state.errors import ConfigurationError
from mnemic.state.identity import split_scope_key
from mnemic.state.rollback import Operation, PastMemory, Rollback
from mnemic.state.settings import Settings
from mnemic.storage import erasure, time_machine
from mnemic.storage.database import Database
from mnemic.storage.opening import open_administration

#: Messages of one transaction, so that none holds the agent's head for long.
_FORGOTTEN_AT_ONCE = 1000


class Administration(AuditOfAgents, RefinementOfAgents):
    """Governance of any agent of a database, as its role `mnemic_admin`, which has no right to any content."""

    def __init__(self, database: Database, settings: Settings, actor: str) -> None:
        self._database = database
        self._settings = settings
        self._actor = actor

    @classmethod
    @asynccontextmanager
    async def open(cls, *, actor: str = "administrator", **settings: Any) -> AsyncIterator[Self]:
        """Connects as the administrators' role.

        Args:
            actor: who acts, as the audit shall name them.
            settings: as those of `Mnemic.open`; `admin_url` names the database.

        Raises:
            ConfigurationError: a setting does not fit, or `admin_url` is missing.
            InvalidInputError: no actor's id.
            MnemicError: the database cannot be had.
        """
        chosen, who = Settings(**settings), checked(AGENT_ID, actor)
        async with open_administration(chosen) as database:
            yield cls(database, chosen, who)

    # -- the Time Machine

    def _transact(self, agent: str) -> rolling_back.Transact:
        return rolling_back.as_administrator(self._database, agent, self._actor)

    async def operations(
        self, agent_id: str, *, session_id: str | None = None, since: datetime | None = None, limit: int = 100
    ) -> list[Operation]:
        """What was done to an agent's memories, newest first.

        Raises:
            InvalidInputError: a value that cannot be used.
        """
        agent = checked(AGENT_ID, agent_id)
        asked = checked(OPERATIONS, {"session_id": session_id, "since": since, "limit": limit})
        async with self._database.administered(agent, self._actor) as scoped:
            return await time_machine.operations(
                scoped, None, session_id=asked["session_id"], since=asked["since"], most=asked["limit"]
            )

    async def undo(
        self,
        agent_id: str,
        *op_ids: UUID | str,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undoes operations of an agent as one; a rollback too, which does the undone again.

        Args:
            op_ids: as `operations` tells them.
            cascade: undoes later operations on the same memories too.
            skip_erased: leaves memories as they are whose contents were erased.
            dry_run: tells what it would do, and what stands against it. Where later operations stand against it, they
                alone are told; `cascade=True` with `dry_run=True` tells the rest.

        Raises:
            UnknownOperationError: the agent has no such operation.
            RollbackConflictError: a memory was changed later, or has a living twin; nothing was written.
            ContentErasedError: contents were erased; nothing was written.
            RollbackStoppedError: of many memories a part is rolled back; the same call goes on.
            InvalidInputError: a value that cannot be used.
        """
        agent = checked(AGENT_ID, agent_id)
        ops = checked(OPERATION_IDS, {"op_ids": list(op_ids)}, strict=None)["op_ids"]
        how = checked(ROLLING, {"cascade": cascade, "skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        return await rolling_back.undo(self._transact(agent), None, ops, how)

    async def undo_session(
        self,
        agent_id: str,
        session_id: str,
        since: datetime,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undoes as one operation all that agents did in a session since a moment.

        Raises:
            UnknownOperationError: nothing was done there since.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        agent = checked(AGENT_ID, agent_id)
        asked = checked(SESSION_SINCE, {"session_id": session_id, "since": since})
        how = checked(ROLLING, {"cascade": cascade, "skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        return await rolling_back.undo_session(self._transact(agent), None, asked["session_id"], asked["since"], how)

    async def restore(
        self,
        agent_id: str,
        scope_key: str,
        moment: int | datetime,
        *,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Gives a scope key back the memories that it had at a moment, protection included.

        Args:
            moment: a seq of the history: an operation's `last_seq` is the moment after it, `first_seq - 1` the one
                before. Or a time, which within an operation means the moment before it.

        Raises:
            RollbackConflictError, ContentErasedError, RollbackStoppedError: as `undo`.
            InvalidInputError: a seq lies within an operation, or a value cannot be used.
        """
        agent, (key, at) = checked(AGENT_ID, agent_id), _past(scope_key, moment)
        how = checked(ROLLING, {"skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        return await rolling_back.restore(self._transact(agent), key, at, how, administers=True)

    async def as_of(
        self, agent_id: str, scope_key: str, moment: int | datetime, *, with_closed: bool = False
    ) -> list[PastMemory]:
        """The memories of a scope key as they were at a moment, without what they say.

        Args:
            moment: as in `restore`; a seq within an operation is taken literally.
            with_closed: those too that were superseded, absorbed or soft-deleted by then.

        Raises:
            InvalidInputError: a value that cannot be used.
        """
        agent, (key, at) = checked(AGENT_ID, agent_id), _past(scope_key, moment)
        closed = checked(SWITCH, with_closed)
        async with self._database.administered(agent, self._actor) as scoped:
            found = await time_machine.as_of_blind(scoped, key, await time_machine.seq_of(scoped, key, at))
        return [one for one in found if closed or one.state in ("active", "purged")]

    # -- retention

    @property
    def purges(self) -> bool:
        """Whether the setting `retention_purge_after_days` is on, as `purge` needs it."""
        return self._settings.retention_purge_after_days is not None

    async def forget_messages(self, agent_id: str) -> int:
        """Takes the words of the agent's messages whose days after formation (`forget_after_days`) are over.

        Returns:
            Of how many.

        Raises:
            InvalidInputError: no agent's id.
        """
        agent, total = checked(AGENT_ID, agent_id), 0
        while gone := await self._database.administer(
            agent, self._actor, lambda scoped: erasure.forget_messages(scoped, _FORGOTTEN_AT_ONCE)
        ):
            total += gone
        return total

    async def purge(self, agent_id: str) -> list[UUID]:
        """Erases the agent's memories that expired longer ago than the setting `retention_purge_after_days`.

        Returns:
            The ids of those that were erased.

        Raises:
            ConfigurationError: the setting is off, as it is by default.
            InvalidInputError: no agent's id.
        """
        agent, days = checked(AGENT_ID, agent_id), self._settings.retention_purge_after_days
        if days is None:
            raise ConfigurationError("nothing is purged: set MNEMIC_RETENTION_PURGE_AFTER_DAYS to say after how long")
        after = timedelta(days=days)
        return await erasure.purge_expired(self._database, agent, self._actor, after)


def _past(scope_key: object, moment: object) -> tuple[str, int | datetime]:
    past = checked(PAST, {"scope_key": scope_key, "moment": moment})
    split_scope_key(past["scope_key"])
    return past["scope_key"], past["moment"]
