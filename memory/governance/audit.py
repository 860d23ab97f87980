"""The audit: checked and anchored by administrators, who see ids and codes, and exported for the person concerned."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from mnemic.memory.governance.chain import (
    MAX_LINE,
    Anchor,
    Anchors,
    contradictions,
    header_line,
    read_anchors,
    row_line,
    signed,
)
from mnemic.memory.runtime.categories import OWNER
from mnemic.memory.runtime.principal import Principal
from mnemic.state.errors import BrokenAuditError, CategoryRefusedError, ConfigurationError, InvalidInputError
from mnemic.state.files import open_private
from mnemic.state.governance import AuditProblem
from mnemic.state.settings import Settings
from mnemic.storage import history
from mnemic.storage.database import Database

#: Rows of the chain that one transaction reads; of a person's own two memories of 8 KiB each, at most.
PAGE: Final = 1000
_NO_HISTORY: Final = "agent_id: no agent of this id has a history"


async def verify(database: Database, administrator: str, agent_id: str | None, anchors: Anchors) -> list[AuditProblem]:
    """All that is wrong with an agent's history, or with that of every agent.

    Raises:
        InvalidInputError: the agent has no history and no anchors.
    """
    known = {*await history.list_agents(database), *anchors.by_agent}
    if agent_id is not None and agent_id not in known:
        raise InvalidInputError(_NO_HISTORY)
    found = list(anchors.problems)
    for agent in sorted(known) if agent_id is None else [agent_id]:
        found += await _problems(Principal.administrator(database, agent, administrator), anchors)
    return found


async def anchor(actor: Principal, file: Path, key: str) -> Anchor:
    """Signs what the agent's history hashes to now and adds it to a file.

    Raises:
        BrokenAuditError: the history has problems, or contradicts the anchors in the file; nothing was written.
        InvalidInputError: the agent has no history, or the file cannot be used.
    """
    anchors = await asyncio.to_thread(read_file, file, key, may_miss=True)
    async with actor.transaction() as scoped:
        head = await history.read_head(scoped)  # before it is checked, so that what is anchored was
    found = [*anchors.problems, *await _problems(actor, anchors)]
    if found:
        raise BrokenAuditError(found)
    if head.revision == 0:
        raise InvalidInputError(_NO_HISTORY)
    made = signed(key, actor.identity.agent_id, head.revision, head.hash, datetime.now(UTC))
    await asyncio.to_thread(_append, file, made.model_dump_json())
    return made


async def _problems(actor: Principal, anchors: Anchors) -> Sequence[AuditProblem]:
    agent = actor.identity.agent_id
    async with actor.transaction() as scoped:
        found = await history.find_problems(scoped)
        hashes = await history.read_hashes(scoped, [made.revision for _, made in anchors.by_agent.get(agent, [])])
    return [*found, *contradictions(anchors, agent, hashes)]


async def export(actor: Principal) -> AsyncIterator[str]:
    """The lines of a file with the person's own part of the chain, and the hashes alone of all others.

    No transaction stays open between two pages, however slow the reader is.

    Raises:
        CategoryRefusedError: the identity's role is not `owner`: this is the person's own view, and no agent's.
    """
    who, own = actor.identity, actor.keys or ()
    if who.role != OWNER:
        raise CategoryRefusedError("an export is the person's own view: give the identity the role `owner`")
    async with actor.transaction() as scoped:
        head = await history.read_head(scoped)
    yield header_line(who.agent_id, who.user_id, own, head)
    for after in range(0, head.revision, PAGE):
        async with actor.transaction() as scoped:
            rows = await history.read_export_rows(scoped, own, after=after, last=min(after + PAGE, head.revision))
        # in a thread: a page may hold 16 MB
        for line in await asyncio.to_thread(list, map(row_line, rows)):
            yield line


def anchor_key(settings: Settings) -> str:
    """The secret that anchors are signed with.

    Raises:
        ConfigurationError: it is not set.
    """
    if settings.anchor_key is None:
        raise ConfigurationError(
            "anchors are signed: set MNEMIC_ANCHOR_KEY to a secret of at least 16 characters that nobody who owns "
            "the database knows"
        )
    return settings.anchor_key.get_secret_value()


def read_file(file: Path, key: str, *, may_miss: bool = False) -> Anchors:
    """The anchors of a file; it is read here and now.

    Raises:
        InvalidInputError: it cannot be read.
    """
    with _usable(file, "read"):
        if may_miss and not file.exists():
            return Anchors()
        with file.open("rb") as opened:
            return read_anchors(iter(partial(opened.readline, MAX_LINE), b""), key)


def _append(file: Path, line: str) -> None:
    """One write at the file's end, on the disk when this returns."""
    with _usable(file, "written"), os.fdopen(open_private(file), "a+b") as opened:
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - 1))
        begin = b"" if opened.read(1) in (b"", b"\n") else b"\n"  # an editor may have left the last line open
        opened.write(begin + line.encode() + b"\n")
        opened.flush()
        os.fsync(opened.fileno())


@contextmanager
def _usable(file: Path, done: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have that name"
        raise InvalidInputError(f"{file} cannot be {done}: {reason or type(error).__name__}") from None
