"""Administration without contents: roll back, protect, check the audit, purge. It shows ids, kinds, states, counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from mnemic.memory.governance import audit, retention, rollback
from mnemic.memory.governance.chain import Anchor, Anchors
from mnemic.memory.runtime.principal import Principal
from mnemic.service.governance.time_machine import TimeMachine
from mnemic.state.checking import AnyId, Limit, Moment, check_arguments, to_uuid, validate
from mnemic.state.governance import AuditProblem, PastMemory, Rollback, RollbackOptions
from mnemic.state.identity import HostId
from mnemic.state.refinement import Refinement
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.opening import ADMINISTRATION, open_database


class Administration(TimeMachine[str]):
    """Governance of any agent of a database, as its role `mnemic_admin`, which has no right to any content."""

    def __init__(self, database: Database, settings: Settings, actor: str) -> None:
        self._database = database
        self._settings = settings
        self._actor = actor

    @classmethod
    @asynccontextmanager
    async def open(cls, *, actor: str = "administrator", **settings: Any) -> AsyncIterator[Self]:
        """Connect as the administrators' role.

        Args:
            actor: the administrator's name in the audit.
            settings: as those of `Mnemic.open`; `admin_url` names the database.

        Raises:
            ConfigurationError: a setting does not fit, or `admin_url` is missing.
            InvalidInputError: no actor's id.
            MnemicError: the database is not available.
        """
        chosen, who = Settings(**settings), validate(HostId, actor)
        async with open_database(chosen, login=ADMINISTRATION) as database:
            yield cls(database, chosen, who)

    def _acting(self, whose: str) -> Principal:
        return Principal.administrator(self._database, validate(HostId, whose), self._actor)

    @check_arguments
    async def unshare(
        self,
        agent_id: HostId,
        user_id: HostId,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Withdraw as one operation the memories that a person shared; memories of the person's own scope stay.

        Args:
            user_id: the person, or the actor that observed for several.
            cascade: as in `undo`; so are the other arguments.

        Raises:
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.unshare(self._acting(agent_id), user_id, options)

    # -- the past

    @check_arguments
    async def as_of(
        self, agent_id: HostId, scope_key: str, moment: Moment, *, with_closed: bool = False
    ) -> list[PastMemory]:
        """Return the memories of a scope key as they were at a moment, without their texts.

        Args:
            moment: as in `restore`; a revision within an operation is taken literally.
            with_closed: those too that were superseded, absorbed or soft-deleted by then.

        Raises:
            InvalidInputError: a value that cannot be used.
        """
        return await rollback.as_of_blind(self._acting(agent_id), scope_key, moment, with_closed=with_closed)

    @check_arguments
    async def refinements(self, agent_id: HostId, *, limit: Limit = 100) -> list[Refinement]:
        """Return an agent's refinements, newest first, also those without an end: figures only.

        Raises:
            InvalidInputError: a value that cannot be used.
        """
        return await rollback.list_refinements(self._acting(agent_id), limit=limit)

    # -- the audit

    @check_arguments
    async def verify(self, agent_id: HostId | None = None, anchors: Path | str | None = None) -> list[AuditProblem]:
        """Return all problems of an agent's history, or of every agent's; empty if it is intact.

        It checks the chain, its head, the contents against their digests, and the current memories, relations and
        search entries against the history. Only anchors show whether its end was cut off or all of it was rewritten.

        Args:
            agent_id: the agent; None for every agent of the database, and of the anchors.
            anchors: a file of `anchor`.

        Raises:
            ConfigurationError: anchors without MNEMIC_ANCHOR_KEY.
            InvalidInputError: the agent has no history and no anchors, or the file cannot be read.
        """
        known = Anchors()
        if anchors is not None:
            known = await asyncio.to_thread(audit.read_file, Path(anchors), audit.anchor_key(self._settings))
        return await audit.verify(self._database, self._actor, agent_id, known)

    @check_arguments
    async def anchor(self, agent_id: HostId, anchors: Path | str) -> Anchor:
        """Sign the current hash of the agent's history and add it to a file, which is created if missing.

        Keep the file and the key out of reach of the database's owners.

        Returns:
            The anchor.

        Raises:
            ConfigurationError: MNEMIC_ANCHOR_KEY is missing.
            BrokenAuditError: the history has problems, or contradicts the anchors in the file; nothing was written.
            InvalidInputError: the agent has no history, or the file cannot be written.
        """
        return await audit.anchor(self._acting(agent_id), Path(anchors), audit.anchor_key(self._settings))

    # -- protection and retention

    @check_arguments
    async def protect(self, agent_id: HostId, memory_id: AnyId) -> bool:
        """Protect an active memory from changes, merges and forgetting until an administrator unprotects it.

        An erasure by the person concerned removes it all the same.

        Returns:
            Whether it was unprotected before.

        Raises:
            UnknownMemoryError: the agent has no active memory of this id.
            InvalidInputError: a value that cannot be used.
        """
        return await retention.set_protection(self._acting(agent_id), to_uuid(memory_id), protected=True)

    @check_arguments
    async def unprotect(self, agent_id: HostId, memory_id: AnyId) -> bool:
        """Unprotect an active memory, whether an agent or an administrator protected it.

        Returns:
            Whether it was protected before.

        Raises:
            UnknownMemoryError, InvalidInputError: as `protect`.
        """
        return await retention.set_protection(self._acting(agent_id), to_uuid(memory_id), protected=False)

    @property
    def purges(self) -> bool:
        """Return whether the setting `retention_purge_after_days` is on, as `purge` needs it."""
        return self._settings.retention_purge_after_days is not None

    @check_arguments
    async def forget_messages(self, agent_id: HostId) -> int:
        """Remove the text of the agent's messages whose days after formation (`forget_after_days`) are over.

        Returns:
            The number of messages.

        Raises:
            InvalidInputError: no agent's id.
        """
        return await retention.forget_messages(self._acting(agent_id))

    @check_arguments
    async def purge(self, agent_id: HostId) -> list[UUID]:
        """Erase the agent's memories that expired longer ago than the setting `retention_purge_after_days`.

        Returns:
            The ids of the erased memories.

        Raises:
            ConfigurationError: the setting is off, as it is by default.
            InvalidInputError: no agent's id.
        """
        return await retention.purge(self._acting(agent_id), self._settings.retention_purge_after_days)
