"""What an application does with memories on purpose, as methods of `Mnemic`: search, remember, correct, forget."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import SkipValidation

from mnemic.operations.correct import correct
from mnemic.operations.governance.retention import forget
from mnemic.operations.recall import count_messages, list_memories, list_messages, memory_history, updates_since
from mnemic.operations.recall import query as run_query
from mnemic.operations.remember import remember, remember_procedure
from mnemic.operations.update import update
from mnemic.service.conversation import MemoryBase
from mnemic.state.checking import AnyId, Limit, Seq, Time, check_arguments, to_uuid, validate
from mnemic.state.formation import (
    Corrected,
    ExplicitScope,
    ProcedureRequest,
    Remembered,
    RememberRequest,
    UpdateRequest,
)
from mnemic.state.identity import AnyIdentity, HostId, Scope
from mnemic.state.kinds import ALL_KINDS, Kind, SearchType
from mnemic.state.query import METHOD_TOP_K, MemoryFilters, MemoryQuery, Updates
from mnemic.state.records import Found, HistoryEvent, Memory, Message


class ExplicitMemory(MemoryBase):
    """Methods that answer, and write, under the allowlist of the identity's role; a text is the caller's own word."""

    @check_arguments
    async def query(
        self,
        identity: AnyIdentity,
        query: str,
        *,
        categories: Sequence[str] | None = None,
        filters: SkipValidation[MemoryFilters | Mapping[str, Any] | None] = None,
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
        request = {
            "query": query,
            "categories": categories,
            "filters": filters if isinstance(filters, MemoryFilters) else validate(dict, filters or {}, strict=False),
            "scopes": scopes,
            "search_type": search_type,
            "top_k": top_k,
            "threshold": threshold,
            "returns": "full",
            "budget_tokens": budget_tokens,
        }
        return await run_query(self.resources, identity, validate(MemoryQuery, request, strict=None))

    @check_arguments
    async def memories(
        self,
        identity: AnyIdentity,
        kinds: Sequence[Kind] = ALL_KINDS,
        *,
        limit: Limit = 1000,
        with_closed: bool = False,
    ) -> list[Memory]:
        """The identity's memories, newest first; superseded and absorbed ones too where `with_closed` is set.

        Those that the identity's role may read: for the person's own view give it the role `owner`.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: an unknown kind, or a limit outside 1..100,000.
        """
        return await list_memories(self.resources, identity, kinds, limit=limit, with_closed=with_closed)

    @check_arguments
    async def messages(
        self, identity: AnyIdentity, *, session_id: HostId | None = None, limit: Limit = 100
    ) -> list[Message]:
        """Return the stored messages of the identity's user and session, newest first.

        Messages that wait for formation are among them; those that have lost their words are not.

        Args:
            identity: whose messages they are; what the assistant said is the session's, so name its `session_id` there.
            session_id: only messages of this session.
            limit: messages at most; `count_messages` counts all.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: a limit outside 1..100,000.
        """
        return await list_messages(self.resources, identity, session_id, limit=limit)

    @check_arguments
    async def count_messages(self, identity: AnyIdentity, *, session_id: HostId | None = None) -> int:
        """Return how many messages `messages` has without a limit.

        Raises:
            CategoryRefusedError: the role has no allowlist.
        """
        return await count_messages(self.resources, identity, session_id)

    @check_arguments
    async def updates(self, identity: AnyIdentity, since: Seq | None = None) -> Updates:
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
        return await updates_since(self.resources, identity, since)

    @check_arguments
    async def history(self, identity: AnyIdentity, memory_id: AnyId) -> list[HistoryEvent]:
        """Everything that happened to one memory, oldest first; empty for an unknown or foreign id.

        One that the identity's role may not read is unknown to it; the role `owner` reads all. What was merged leads
        to what it was merged into, and back (`merged_into`, `merged_from`). A fact leads to the facts that it
        replaced, and to the one that replaced it (`supersedes`, `superseded_by`).

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: no id.
        """
        return await memory_history(self.resources, identity, to_uuid(memory_id))

    @check_arguments
    async def remember(
        self,
        identity: AnyIdentity,
        content: str,
        *,
        category: str,
        kind: Literal["fact", "core"] = "fact",
        importance: int = 3,
        scope: ExplicitScope = "user",
        private: bool = False,
    ) -> Remembered:
        """Stores one fact, or one commitment that is always in context, or names the memory that says the same.

        What it may replace is named (`near`) and stays: `correct` replaces it.

        Args:
            identity: whose memory it is; its role's allowlist holds.
            content: one complete sentence in the third person; a fact has at most 30 words.
            category: one that the role reads and formation may choose from.
            kind: `fact` is searched, `core` stands in every prompt.
            importance: 1 trivial to 5 vital.
            scope: `group` with one group in the identity, `agent` where it teaches the agent; nothing private, of a
                personal category or with contact data. Else it is the user's own. The answer says whose it became.
            private: said in confidence: it is never shared.

        Raises:
            CategoryRefusedError: the role may not write into this category.
            InvalidInputError: the content is not written as a memory has to be, or a value cannot be used.
            EmbeddingError: a setting of the embedder is wrong; nothing was written.
        """
        request = {
            "content": content,
            "category": category,
            "kind": kind,
            "importance": importance,
            "scope": scope,
            "private": private,
        }
        return await remember(self.resources, identity, validate(RememberRequest, request, strict=None))

    @check_arguments
    async def remember_procedure(
        self, identity: AnyIdentity, title: str, steps: Sequence[str], *, scope: ExplicitScope = "user"
    ) -> Remembered:
        """Stores how something is done: a title and numbered steps, found where the category `procedural` is asked for.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: a title or steps that say nothing, more than 20 steps, or a value that cannot be used.
            EmbeddingError: a setting of the embedder is wrong; nothing was written.
        """
        request = validate(ProcedureRequest, {"title": title, "steps": steps, "scope": scope}, strict=None)
        return await remember_procedure(self.resources, identity, request)

    @check_arguments
    async def correct(self, identity: AnyIdentity, memory_id: AnyId, content: str) -> Corrected:
        """Replaces what a memory says: it is closed with its date, and a new one in its place is found from then on.

        The new memory has the old one's kind, scope key, subject, category, importance and privacy. Both are one
        operation, which `undo` takes back. A living memory that says the same already takes the place.

        Args:
            identity: whose memory it is; its role's allowlist holds.
            memory_id: what is to be corrected.
            content: as `remember` takes it; of a procedure its title and, below it, a line for each step.

        Raises:
            InvalidInputError: no such memory for this identity's role, no id, or a content that cannot be kept.
            NotCorrectedError: it is protected, closed, absorbed or a consolidation, or shared while the content may not
                be; or the session has had enough forgotten and corrected today.
            CategoryRefusedError: the role has no allowlist, or may not write into this category.
            EmbeddingError: a setting of the embedder is wrong; nothing was written.
            ConcurrentChangeError: the memory was changed meanwhile; nothing was written.
        """
        return await correct(self.resources, identity, to_uuid(memory_id), content)

    @check_arguments
    async def update(
        self,
        identity: AnyIdentity,
        memory_id: AnyId,
        *,
        pinned: bool | None = None,
        tags: Sequence[str] | None = None,
        importance: int | None = None,
        valid_until: Time | None = None,
    ) -> Memory:
        """Change what is known about a memory, not what it says; None leaves a value as it is. `undo` takes it back.

        Args:
            identity: whose memory it is; its role's allowlist holds.
            memory_id: what is to be changed.
            pinned: whether maintenance leaves the memory alone, however long it is not used.
            tags: all of its tags; an empty list removes them.
            importance: 1 trivial to 5 vital.
            valid_until: when it ceases to hold, such as the day of a plan; maintenance closes it then, unless pinned.

        Returns:
            The memory as it is then.

        Raises:
            InvalidInputError: There is no such memory for this identity's role, nothing is given, or a value cannot be
                used.
            NotUpdatedError: It is protected or closed, or shared and the identity does not teach the agent.
            CategoryRefusedError: The role has no allowlist.
            ConcurrentChangeError: The memory was changed meanwhile; nothing was written.
        """
        request = {"pinned": pinned, "tags": tags, "importance": importance, "valid_until": valid_until}
        return await update(self.resources, identity, to_uuid(memory_id), validate(UpdateRequest, request, strict=None))

    @check_arguments
    async def forget(self, identity: AnyIdentity, memory_id: AnyId) -> bool:
        """Soft-deletes a memory of the identity's user or session, which can be undone; False where it lived no more.

        Raises:
            InvalidInputError: no such memory for this identity's role, or no id.
            NotForgottenError: it is protected, shared, or a consolidation, or the session has forgotten enough today.
            CategoryRefusedError: the role has no allowlist.
        """
        return await forget(self.resources, identity, to_uuid(memory_id))
