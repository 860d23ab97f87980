"""The audit for the person concerned: their own part of the chain, in a form that anybody can check."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from mnemic.operations.run.resources import Resources
from mnemic.policy.categories import OWNER
from mnemic.policy.governance.audit_export import first_hash, header_line, row_line
from mnemic.service.governance.own import owner
from mnemic.state.audit import Head
from mnemic.state.errors import CategoryRefusedError
from mnemic.state.identity import Identity
from mnemic.storage import audit

#: Rows of the chain that one transaction reads; of a person's own two memories of 8 KiB each, at most.
_PAGE: Final = 1000


class AuditExport:
    """The export of a person's history."""

    _resources: Resources

    async def export_audit(self, identity: Identity) -> AsyncIterator[str]:
        """The lines (JSON) of a file with what happened to the person's own memories, as parts of the agent's chain.

        What it shows was not changed, moved, or taken from another chain. Whether a row shown as somebody else's is the
        person's own, only who runs the database can tell.

        Of the identity's user and session every row with its contents, where they were not erased; of all others the
        hashes alone that hold the chain together. `check_export` or sha256 alone checks it. No transaction stays open
        between two pages, however slow the reader is.

        Raises:
            CategoryRefusedError: the identity's role is not `owner`: this is the person's own view, and no agent's.
            InvalidInputError: no user and no session in the identity.
        """
        who, own = owner(identity)
        if who.role != OWNER:
            raise CategoryRefusedError("an export is the person's own view: give the identity the role `owner`")
        async with self._resources.database.scoped(who) as scoped:
            head = await audit.exported_head(scoped) or Head(seq=0, hash=first_hash(who.agent_id))
        yield header_line(who.agent_id, who.user_id, own, head)
        for after in range(0, head.seq, _PAGE):
            async with self._resources.database.scoped(who) as scoped:
                rows = await audit.exported(scoped, own, after=after, last=min(after + _PAGE, head.seq))
            # in a thread: a page may hold 16 MB
            for line in await asyncio.to_thread(list, map(row_line, rows)):
                yield line
