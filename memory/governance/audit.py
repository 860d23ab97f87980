"""The audit: verified and anchored for administrators, who see ids and codes, and exported for a person."""

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
from mnemic.state.worker_threads import in_thread
from mnemic.storage import history
from mnemic.storage.database import Database

#: Rows of the chain that one transaction reads; a person's own row has at most two memories of 8 KiB.
PAGE_ROWS: Final = 1000
_NO_HISTORY: Final = "agent_id: this agent has no history; check its name"


async def verify(database: Database, administrator: str, agent_id: str | None, anchors: Anchors) -> list[AuditProblem]:
    """Return all problems of an agent's history, or of every agent's.

    Raises:
        InvalidInputError: if the agent has no history and no anchors.
    """
    agents = {*await history.list_agents(database), *anchors.by_agent}
    if agent_id is not None:
        if agent_id not in agents:
            raise InvalidInputError(_NO_HISTORY)
        agents = {agent_id}
    problems = list(anchors.problems)
    for agent in sorted(agents):
        problems += await _problems(Principal.administrator(database, agent, administrator), anchors)
    return problems


async def anchor(principal: Principal, file: Path, key: str) -> Anchor:
    """Sign the current hash of the agent's history and add it to a file.

    Raises:
        BrokenAuditError: if the history has problems, or contradicts the anchors in the file; nothing was written.
        InvalidInputError: if the agent has no history, or the file cannot be used.
    """
    anchors = await in_thread(read_file, file, key, may_miss=True)
    # the head is read before the verification, so that the anchored rows are verified
    async with principal.transaction() as tx:
        head = await history.read_head(tx)
    problems = [*anchors.problems, *await _problems(principal, anchors)]
    if problems:
        raise BrokenAuditError(problems)
    if head.revision == 0:
        raise InvalidInputError(_NO_HISTORY)
    new = signed(key, principal.identity.agent_id, head.revision, head.hash, datetime.now(UTC))
    await in_thread(_append, file, new.model_dump_json())
    return new


async def _problems(principal: Principal, anchors: Anchors) -> Sequence[AuditProblem]:
    agent = principal.identity.agent_id
    revisions = [anchor.revision for _, anchor in anchors.by_agent.get(agent, [])]
    async with principal.transaction() as tx:
        found = await history.find_problems(tx)
        hashes = await history.read_hashes(tx, revisions)
    return [*found, *contradictions(anchors, agent, hashes)]


async def export(principal: Principal) -> AsyncIterator[str]:
    """Yield the lines of a file with the person's own part of the chain, and only the hashes of all other rows.

    No transaction stays open between two pages, however slow the reader is.

    Raises:
        CategoryRefusedError: if the identity's role is not `owner`; the export is the person's view.
    """
    identity, keys = principal.identity, principal.keys or ()
    if identity.role != OWNER:
        raise CategoryRefusedError("an export is the person's own view: give the identity the role `owner`")
    async with principal.transaction() as tx:
        head = await history.read_head(tx)
    yield header_line(identity.agent_id, identity.user_id, keys, head)
    for after in range(0, head.revision, PAGE_ROWS):
        last = min(after + PAGE_ROWS, head.revision)
        async with principal.transaction() as tx:
            rows = await history.read_export_rows(tx, keys, after=after, last=last)
        # in a thread: a page may hold 16 MB
        for line in await in_thread(list, map(row_line, rows)):
            yield line


def anchor_key(settings: Settings) -> str:
    """Return the secret that signs anchors.

    Raises:
        ConfigurationError: if it is not set.
    """
    if settings.anchor_key is None:
        raise ConfigurationError(
            "anchors are signed: set MNEMIC_ANCHOR_KEY to a secret of at least 16 characters that no owner of the "
            "database knows"
        )
    return settings.anchor_key.get_secret_value()


def read_file(file: Path, key: str, *, may_miss: bool = False) -> Anchors:
    """Read the anchors of a file; this blocks.

    Raises:
        InvalidInputError: if the file cannot be read.
    """
    with _typed_file_errors(file, "read"):
        if may_miss and not file.exists():
            return Anchors()
        with file.open("rb") as opened:
            return read_anchors(iter(partial(opened.readline, MAX_LINE), b""), key)


def _append(file: Path, line: str) -> None:
    """Append a line in one write, which is on the disk when this returns."""
    with _typed_file_errors(file, "written"), os.fdopen(open_private(file), "a+b") as opened:
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - 1))
        # an editor may have left the last line without its end
        is_line_open = opened.read(1) not in (b"", b"\n")
        if is_line_open:
            line = f"\n{line}"
        opened.write(line.encode() + b"\n")
        opened.flush()
        os.fsync(opened.fileno())


@contextmanager
def _typed_file_errors(file: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be {done}: {error.strerror or type(error).__name__}") from None
    except ValueError:
        raise InvalidInputError(f"{file} cannot be {done}: no file can have that name") from None
