"""What an application looks up on purpose: a search, a listing, one memory's history, as methods of `Mnemic`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from mnemic.operations.explicit.forget import is_known
from mnemic.operations.recall.query import query as ask
from mnemic.operations.run.identity import to_identity
from mnemic.operations.run.resources import Resources
from mnemic.policy.recall.delta import bullets
from mnemic.service.asked import ALL_KINDS, LISTING, MEMORY_ID, QUERY, REVISION
from mnemic.state.changes import Updates
from mnemic.state.checking import MAPPING, checked
from mnemic.state.identity import Identity, Scope
from mnemic.state.query import METHOD_TOP_K, MemoryFilters
from mnemic.state.records import Found, HistoryEvent, Kind, Memory, SearchType
from mnemic.storage import history, memories, revisions

#: No history comes so far.
_END: Final = 2**63 - 1


class ExplicitReads:
    """Methods that answer under the allowlist of the identity's role."""

    _resources: Resources

    async def query(
        self,
        identity: Identity,
        query: str,
        *,
        categories: Sequence[str] | None = None,
        filters: MemoryFilters | Mapping[str, Any] | None = None,
        scopes: Sequence[Scope] | None = None,
        search_type: SearchType = "hybrid",
        top_k: int = METHOD_TOP_K,
        threshold: float | None = None,
        budget_tokens: int | None = None,
    ) -> list[Found]:
        """The memories and kept messages that fit a question best, best first, each with the grounds of its score.

        At most two that are related to them may follow (`related_to`).

        Args:
            identity: whose memory it is; its role's allowlist holds.
            query: what is looked for; a phrase in quotation marks has to occur.
            categories: only these; None: all that the role may read.
            filters: they only narrow; see `MemoryFilters`.
            scopes: only these of the identity's.
            search_type: words and meaning, or one of them.
            top_k: results at most.
            threshold: the least cosine similarity of a result.
            budget_tokens: tokens the results may take as lines of a prompt.

        Raises:
            CategoryRefusedError: a category is not on the role's allowlist, or the role has none.
            InvalidInputError: an empty question, an unknown filter, or a value out of its bounds.
            EmbeddingError: the question could not be embedded; a search by text needs no embedder.
            DatabaseUnavailableError: the database cannot be had in time.
        """
        who = to_identity(identity)
        asked = {
            "query": query,
            "categories": categories,
            "filters": filters if isinstance(filters, MemoryFilters) else checked(MAPPING, filters or {}, strict=False),
            "scopes": scopes,
            "search_type": search_type,
            "top_k": top_k,
            "threshold": threshold,
            "returns": "full",
            "budget_tokens": budget_tokens,
        }
        return await ask(self._resources, who, checked(QUERY, asked, strict=None))

    async def memories(
        self, identity: Identity, kinds: Sequence[Kind] = ALL_KINDS, *, limit: int = 1000, with_closed: bool = False
    ) -> list[Memory]:
        """The identity's memories, newest first; superseded and absorbed ones too where asked.

        Those that the identity's role may read: for the person's own view give it the role `owner`.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: an unknown kind, or a limit outside 1..100,000.
        """
        who = to_identity(identity)
        asked = checked(LISTING, {"kinds": kinds, "limit": limit, "with_closed": with_closed})
        allowlist = self._resources.categories.of_role(who.role)
        readable = [kind for kind in asked["kinds"] if allowlist.standing or kind not in memories.STANDING]
        async with self._resources.database.scoped(who, categories=allowlist.categories) as scoped:
            return await memories.living(scoped, readable, most=asked["limit"], with_closed=asked["with_closed"])

    async def updates(self, identity: Identity, since: int | None = None) -> Updates:
        """What happened to the identity's memories, each with its sign and its words as they are now.

        Those that the identity's role may read: for the person's own view give it the role `owner`. No session's own
        updates are touched.

        Args:
            identity: whose memories they are.
            since: the revision of an earlier answer; None: nothing but the revision is wanted.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: no revision.
        """
        who, told = to_identity(identity), checked(REVISION, since)
        allowlist = self._resources.categories.of_role(who.role)
        async with self._resources.database.scoped(who, categories=allowlist.categories) as scoped:
            changes = await revisions.since(scoped, _END if told is None else told, standing=allowlist.standing)
        return Updates(revision=max(changes.revision, told or 0), bullets=bullets(changes))

    async def history(self, identity: Identity, memory_id: UUID | str) -> list[HistoryEvent]:
        """Everything that happened to one memory, oldest first; empty for an unknown or foreign id.

        One that the identity's role may not read is unknown to it; the role `owner` reads all. What was merged leads
        to what it was merged into, and back (`merged_into`, `merged_from`).

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: no id.
        """
        who = to_identity(identity)
        wanted = checked(MEMORY_ID, memory_id, strict=None)
        allowlist = self._resources.categories.of_role(who.role)
        async with self._resources.database.scoped(who, categories=allowlist.categories) as scoped:
            memory = await memories.one(scoped, wanted)
            is_readable = memory is not None and is_known(memory, allowlist)
            return await history.of_memory(scoped, wanted) if is_readable else []
