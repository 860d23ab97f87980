"""The audit, checked and anchored by administrators, who see ids and codes and no contents."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from mnemic.policy.governance.anchors import MAX_LINE, Anchor, Anchors, contradictions, line_of, read_anchors, signed
from mnemic.service.asked import AGENT_ID
from mnemic.state.audit import AuditProblem
from mnemic.state.checking import checked
from mnemic.state.errors import BrokenAuditError, ConfigurationError, InvalidInputError
from mnemic.state.settings import Settings
from mnemic.storage import audit
from mnemic.storage.database import Database

_FILE: Final = TypeAdapter(Path)


class AuditOfAgents:
    """Verification of any agent's history, and the anchors without which its owner may write it anew."""

    _database: Database
    _settings: Settings
    _actor: str

    async def verify(self, agent_id: str | None = None, anchors: Path | str | None = None) -> list[AuditProblem]:
        """All that is wrong with an agent's history, or with every agent's; nothing, where it is as it was written.

        Checked are the chain, its head, the contents against their digests, and today's memories, relations and search
        entries against what the history leaves. Only anchors tell whether its end was cut off or all of it rewritten.

        Args:
            agent_id: None: every agent of the database, and of the anchors.
            anchors: a file that `anchor` has written.

        Raises:
            ConfigurationError: anchors without MNEMIC_ANCHOR_KEY.
            InvalidInputError: the agent has no history and no anchors, or the file cannot be read.
        """
        asked = None if agent_id is None else checked(AGENT_ID, agent_id)
        known = await self._read(checked(_FILE, anchors, strict=None)) if anchors is not None else Anchors()
        there = {*await audit.agents(self._database), *known.by_agent}
        if asked is not None and asked not in there:
            raise InvalidInputError("agent_id: no agent of this id has a history")
        found = list(known.problems)
        for agent in sorted(there) if asked is None else [asked]:
            found += await self._problems(agent, known)
        return found

    async def anchor(self, agent_id: str, anchors: Path | str) -> Anchor:
        """Signs what the agent's history hashes to now and adds it to a file, which is made where there is none.

        Keep the file where nobody who owns the database can write, and the key where they cannot read.

        Returns:
            The anchor.

        Raises:
            ConfigurationError: MNEMIC_ANCHOR_KEY is missing.
            BrokenAuditError: the history has problems, or contradicts the anchors in the file; nothing was written.
            InvalidInputError: the agent has no history, or the file cannot be written.
        """
        agent, path, key = checked(AGENT_ID, agent_id), checked(_FILE, anchors, strict=None), self._key()
        known = await self._read(path, may_miss=True)
        async with self._database.administered(agent, self._actor) as scoped:
            head = await audit.head(scoped)  # before it is checked, so that what is anchored was
        found = [*known.problems, *await self._problems(agent, known)]
        if found:
            raise BrokenAuditError(found)
        if head is None:
            raise InvalidInputError("agent_id: no agent of this id has a history")
        made = signed(key, agent, head.seq, head.hash, datetime.now(UTC))
        await asyncio.to_thread(_append, path, line_of(made))
        return made

    async def _problems(self, agent: str, anchors: Anchors) -> list[AuditProblem]:
        async with self._database.administered(agent, self._actor) as scoped:
            found = await audit.problems(scoped)
            hashes = await audit.hashes(scoped, anchors.seqs(agent))
        return [*found, *contradictions(anchors, agent, hashes)]

    async def _read(self, path: Path, *, may_miss: bool = False) -> Anchors:
        return await asyncio.to_thread(_anchors, path, self._key(), may_miss)

    def _key(self) -> str:
        if self._settings.anchor_key is None:
            raise ConfigurationError(
                "anchors are signed: set MNEMIC_ANCHOR_KEY to a secret of at least 16 characters that nobody who owns "
                "the database knows"
            )
        return self._settings.anchor_key.get_secret_value()


def _anchors(path: Path, key: str, may_miss: bool) -> Anchors:
    try:
        return read_anchors(_lines(path), key)
    except FileNotFoundError:
        if may_miss:
            return Anchors()
        raise InvalidInputError(f"{path} cannot be read: there is no such file") from None
    except (OSError, ValueError) as error:
        raise _unusable(path, "read", error) from None


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE):
            yield line


def _append(path: Path, line: str) -> None:
    """One write at the file's end, on the disk when this returns."""
    try:
        with path.open("a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            begin = b"" if file.read(1) in (b"", b"\n") else b"\n"  # who edited it may have left the last line open
            file.write(begin + line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except (OSError, ValueError) as error:
        raise _unusable(path, "written", error) from None


def _unusable(path: Path, done: str, error: OSError | ValueError) -> InvalidInputError:
    reason = (error.strerror or type(error).__name__) if isinstance(error, OSError) else "no file can have that name"
    return InvalidInputError(f"{path} cannot be {done}: {reason}")
