"""The Time Machine as everybody meets it: the person's methods, an administrator's, and either by the command line."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from mnemic import Administration, Mnemic
from mnemic.state.errors import RollbackRefusedError
from mnemic.state.rollback import Rollback
from tests.support.commands import invoke
from tests.support.rollbacks import ANA
from tests.support.server import Clone

_ROLLBACK = TypeAdapter(Rollback)
WAYS = ("the person's methods", "the administrator's methods", "the person's commands", "the administrator's commands")


class Surface(Protocol):
    """One way to roll back; switches are named as the methods name them."""

    @property
    def administers(self) -> bool:
        """Whether it acts as administrator, on all scope keys."""
        ...

    async def undo(self, *ops: UUID, **switches: bool) -> Rollback: ...

    async def undo_session(self, session_id: str, since: datetime, **switches: bool) -> Rollback: ...

    async def undo_refinement(self, refinement_id: UUID, **switches: bool) -> Rollback: ...

    async def restore(self, key: str, moment: int | datetime, **switches: bool) -> Rollback: ...


@dataclass(frozen=True)
class Methods:
    """Those of `Mnemic`, or of `Administration`."""

    machine: Any
    #: The identity, or the agent's id.
    whose: Any
    administers: bool

    async def undo(self, *ops: UUID, **switches: bool) -> Rollback:
        done: Rollback = await self.machine.undo(self.whose, *ops, **switches)
        return done

    async def undo_session(self, session_id: str, since: datetime, **switches: bool) -> Rollback:
        done: Rollback = await self.machine.undo_session(self.whose, session_id, since, **switches)
        return done

    async def undo_refinement(self, refinement_id: UUID, **switches: bool) -> Rollback:
        done: Rollback = await self.machine.undo_refinement(self.whose, refinement_id, **switches)
        return done

    async def restore(self, key: str, moment: int | datetime, **switches: bool) -> Rollback:
        done: Rollback = await self.machine.restore(self.whose, key, moment, **switches)
        return done


@dataclass(frozen=True)
class Commands:
    """`mnemic undo` and `mnemic restore`; a refusal is raised with their message and the rollback they printed."""

    agent: str
    #: None: as administrator.
    user: str | None
    session: str

    @property
    def administers(self) -> bool:
        return self.user is None

    async def undo(self, *ops: UUID, **switches: bool) -> Rollback:
        return await self._run(["undo", *map(str, ops), *self._session()], switches)

    async def undo_session(self, session_id: str, since: datetime, **switches: bool) -> Rollback:
        return await self._run(["undo", "--session", session_id, "--since", since.isoformat()], switches)

    async def undo_refinement(self, refinement_id: UUID, **switches: bool) -> Rollback:
        return await self._run(["undo", "--refinement", str(refinement_id)], switches)

    async def restore(self, key: str, moment: int | datetime, **switches: bool) -> Rollback:
        at = moment.isoformat() if isinstance(moment, datetime) else str(moment)
        return await self._run(["restore", key, "--at", at, *self._session()], switches)

    def _session(self) -> list[str]:
        return ["--session", self.session] if self.user else []

    async def _run(self, words: Sequence[str], switches: Mapping[str, bool]) -> Rollback:
        given = [f"--{name.replace('_', '-')}" for name, is_on in {"yes": True, **switches}.items() if is_on]
        if switches.get("dry_run"):
            given.remove("--yes")
        user = ["--user", self.user] if self.user else []
        command = [*words, "--agent", self.agent, *user, *given, "--json"]
        result = await asyncio.to_thread(invoke, *command)
        told = _ROLLBACK.validate_python(json.loads(result.stdout)) if result.stdout else Rollback(op_id=None)
        if result.exit_code == 2:
            raise RollbackRefusedError(result.stderr, told)
        return told


@pytest.fixture(params=WAYS)
def surface(
    request: pytest.FixtureRequest,
    memory: Mnemic,
    administration: Administration,
    clean_db: Clone,
    monkeypatch: pytest.MonkeyPatch,
) -> Surface:
    """One way after the other, for Ana and her agent."""
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    agent, user, session = ANA.agent_id, ANA.user_id, ANA.session_id or ""
    ways: dict[str, Surface] = {
        "the person's methods": Methods(memory, ANA, administers=False),
        "the administrator's methods": Methods(administration, agent, administers=True),
        "the person's commands": Commands(agent, user, session),
        "the administrator's commands": Commands(agent, None, session),
    }
    return ways[request.param]
