"""Administration without contents: roll back, protect, check the audit, purge."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

from pydantic import SecretStr

from mnemic.memory.governance import audit, retention, rollback
from mnemic.memory.governance.chain import Anchor, Anchors
from mnemic.memory.runtime.principal import Principal
from mnemic.service.governance.history import BlindHistory
from mnemic.service.opening import opening, require_opened
from mnemic.service.own_thread import in_own_thread, to_sync_administration
from mnemic.state.checking import AnyId, Limit, check_arguments, to_uuid, validate
from mnemic.state.errors import InvalidInputError
from mnemic.state.governance import AuditProblem, Rollback, RollbackOptions
from mnemic.state.identity import AnyIdentity, HostId, Identity
from mnemic.state.refinement import Refinement
from mnemic.state.results import Protection
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread
from mnemic.storage.database import Database
from mnemic.storage.opening import ADMINISTRATION, open_database


class Administration:
    """Governance of any agent of a database, as its role `mnemic_admin`, which has no right to any content.

    The identity of a method names the agent: `Identity(agent_id="guide")`. Results have ids, kinds, states and counts.

    Attributes:
        history: operations, their rollback, and past states.
    """

    @require_opened(Database)
    def __init__(self, database: Database, settings: Settings, actor: str) -> None:
        self._database = database
        self._settings = settings
        self._actor = actor
        self.history = BlindHistory(self._administrator)

    def _administrator(self, identity: Identity) -> Principal:
        return Principal.administrator(self._database, identity.agent_id, self._actor)

    @staticmethod
    @opening("Administration")
    async def open(
        *,
        actor: str = "administrator",
        admin_url: str | SecretStr | None = None,
        settings: Settings | None = None,
    ) -> AsyncIterator["Administration"]:
        """Connect as the administrators' role until the block ends.

        Args:
            actor: the administrator's name in the audit.
            admin_url: Postgres of the role `mnemic_admin`; by default the embedded server.
            settings: all other settings; None for those of the environment.

        Raises:
            ConfigurationError: if a setting does not fit, or `admin_url` is missing.
            InvalidInputError: if the actor is no id.
            MnemicError: if the database is not available.
        """
        chosen = Settings.with_overrides(settings, {"admin_url": admin_url})
        name = validate(HostId, actor)
        async with open_database(chosen, login=ADMINISTRATION) as database:
            yield Administration(database, chosen, name)

    open_sync = staticmethod(in_own_thread(open, to_sync_administration))  # noqa: A003 - the method above

    @check_arguments
    async def refinements(self, identity: AnyIdentity, *, limit: Limit = 100) -> list[Refinement]:
        """Return an agent's refinements, newest first, also those without an end: figures, no contents.

        Raises:
            InvalidInputError: if a value cannot be used.
        """
        return await rollback.list_refinements(self._administrator(identity), limit=limit)

    @check_arguments
    async def unshare(
        self, identity: AnyIdentity, *, cascade: bool = False, skip_erased: bool = False, dry_run: bool = False
    ) -> Rollback:
        """Withdraw the memories that a person shared as one operation; memories of the person's own scope stay.

        Args:
            identity: the agent, and the person as its user; or the actor that observed for several.
            cascade: as in `history.undo`.
            skip_erased: as in `history.undo`.
            dry_run: as in `history.undo`.

        Raises:
            InvalidInputError: if the identity names no person, or as `history.undo`.
            RollbackConflictError, ContentErasedError, RollbackStoppedError: as `history.undo`.
        """
        if identity.user_id is None and identity.actor_id is None:
            raise InvalidInputError("user_id: name the person whose shared memories to withdraw")
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.unshare(self._administrator(identity), identity.actor, options)

    # -- the audit

    @check_arguments
    async def verify(
        self, identity: AnyIdentity | None = None, anchors: Path | str | None = None
    ) -> list[AuditProblem]:
        """Return all problems of an agent's history, or of every agent's; an empty list if it is intact.

        It checks the chain, its head, the contents against their digests, and the current memories, relations and
        search entries against the history. Only anchors show whether its end was cut off or all of it was rewritten.

        Args:
            identity: the agent; None for every agent of the database, and of the anchors.
            anchors: a file of `anchor`.

        Raises:
            ConfigurationError: if there are anchors, but no MNEMIC_ANCHOR_KEY.
            InvalidInputError: if the agent has no history and no anchors, or the file cannot be read.
        """
        known_anchors = Anchors()
        if anchors is not None:
            key = audit.anchor_key(self._settings)
            known_anchors = await in_thread(audit.read_file, Path(anchors), key)
        agent_id = None if identity is None else identity.agent_id
        return await audit.verify(self._database, self._actor, agent_id, known_anchors)

    @check_arguments
    async def anchor(self, identity: AnyIdentity, anchors: Path | str) -> Anchor:
        """Sign the current hash of the agent's history and add it to a file, which is created if missing.

        Keep the file and the key out of reach of the database's owners.

        Args:
            identity: the agent.
            anchors: the file.

        Returns:
            The anchor.

        Raises:
            ConfigurationError: if MNEMIC_ANCHOR_KEY is missing.
            BrokenAuditError: if the history has problems, or contradicts the anchors in the file; nothing was written.
            InvalidInputError: if the agent has no history, or the file cannot be written.
        """
        key = audit.anchor_key(self._settings)
        return await audit.anchor(self._administrator(identity), Path(anchors), key)

    # -- protection and retention

    @check_arguments
    async def protect(self, identity: AnyIdentity, id: AnyId) -> Protection:
        """Protect an active memory from changes, merges and forgetting until an administrator unprotects it.

        An erasure by the person concerned removes it all the same.

        Args:
            identity: the agent.
            id: the memory.

        Raises:
            UnknownMemoryError: if the agent has no active memory of this id.
            InvalidInputError: if a value cannot be used.
        """
        return await self._set_protection(identity, to_uuid(id), protected=True)

    @check_arguments
    async def unprotect(self, identity: AnyIdentity, id: AnyId) -> Protection:
        """Unprotect an active memory, whether an agent or an administrator protected it.

        Args:
            identity: the agent.
            id: the memory.

        Raises:
            UnknownMemoryError, InvalidInputError: as `protect`.
        """
        return await self._set_protection(identity, to_uuid(id), protected=False)

    async def _set_protection(self, identity: Identity, memory_id: UUID, *, protected: bool) -> Protection:
        changed = await retention.set_protection(self._administrator(identity), memory_id, protected=protected)
        return Protection(id=memory_id, protected=protected, changed=changed)

    @property
    def purges(self) -> bool:
        """Whether the setting `retention_purge_after_days` is on, as `purge` needs it."""
        return self._settings.retention_purge_after_days is not None

    @check_arguments
    async def forget_messages(self, identity: AnyIdentity) -> int:
        """Remove the text of the agent's messages whose days after formation (`forget_after_days`) are over.

        Returns:
            The number of messages.
        """
        return await retention.forget_messages(self._administrator(identity))

    @check_arguments
    async def purge(self, identity: AnyIdentity) -> list[UUID]:
        """Erase the agent's memories that expired longer ago than the setting `retention_purge_after_days`.

        Returns:
            The ids of the erased memories.

        Raises:
            ConfigurationError: if the setting is off, as it is by default.
        """
        return await retention.purge(self._administrator(identity), self._settings.retention_purge_after_days)
