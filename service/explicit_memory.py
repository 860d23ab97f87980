"""Explicit use of memories, as methods of `Mnemic`: search, remember, correct, forget."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import SkipValidation

from mnemic.memory.explicit.caller import TrustedCaller
from mnemic.memory.explicit.correct import correct
from mnemic.memory.explicit.forget import forget
from mnemic.memory.explicit.remember import remember, remember_procedure
from mnemic.memory.explicit.update import update
from mnemic.memory.recall.query import count_messages, list_memories, list_messages, memory_history, updates_since
from mnemic.memory.recall.query import query as run_query
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
from mnemic.state.kinds import KINDS, Kind, SearchType
from mnemic.state.query import METHOD_TOP_K, MemoryFilters, MemoryQuery, Updates
from mnemic.state.records import HistoryEvent, Memory, Message, SearchResult


class ExplicitMemory(MemoryBase):
    """Methods under the allowlist of the identity's role; the caller vouches for the texts that they store."""

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
    ) -> list[SearchResult]:
        """Return the memories and messages that fit a question best, best first, with the parts of their scores.

        At most two related memories may follow (`related_to`).

        Args:
            identity: the owner of the memory; its role's allowlist applies.
            query: the question; a phrase in quotation marks must occur in each result.
            categories: only these; None for all that the role may read.
            filters: further limits; see `MemoryFilters`.
            scopes: only these scopes of the identity.
            search_type: words and meaning, or one of them.
            top_k: maximum number of results.
            threshold: minimum cosine similarity of a result.
            budget_tokens: maximum tokens of the results as lines of a prompt.

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
        kinds: Sequence[Kind] = KINDS,
        *,
        limit: Limit = 1000,
        with_closed: bool = False,
    ) -> list[Memory]:
        """Return the identity's memories, newest first; with `with_closed`, superseded and absorbed ones too.

        Only memories that the identity's role may read: the role `owner` has the person's own view.

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
            identity: the owner of the messages; the assistant's belong to the session, so it needs a `session_id`.
            session_id: only messages of this session.
            limit: maximum number of messages; `count_messages` counts all.

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
        """Return changes of the identity's memories since a revision, each with its sign and the current text.

        Only memories that the identity's role may read: the role `owner` has the person's own view. The updates of
        sessions are not affected.

        Args:
            identity: the owner of the memories.
            since: the revision of an earlier result; None to get only the current revision.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: no revision.
        """
        return await updates_since(self.resources, identity, since)

    @check_arguments
    async def history(self, identity: AnyIdentity, memory_id: AnyId) -> list[HistoryEvent]:
        """Return all events of one memory, oldest first; empty for an unknown or foreign id.

        A memory that the identity's role may not read counts as unknown; the role `owner` reads all. A merged memory
        leads to the merge, and back (`merged_into`, `merged_from`). A fact leads to the facts that it replaced, and to
        its own replacement (`supersedes`, `superseded_by`).

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
        """Store one fact, or one commitment that is always in context; return the stored memory if it is a duplicate.

        Similar memories are listed (`near`) and stay: `correct` replaces one.

        Args:
            identity: the owner of the memory; its role's allowlist applies.
            content: one complete sentence in the third person; a fact has at most 30 words.
            category: one that the role reads and formation may choose from.
            kind: `fact` is searched, `core` is part of every prompt.
            importance: 1 trivial to 5 vital.
            scope: `group` with one group in the identity, or `agent` if the identity teaches the agent. A private text,
                a personal category or contact data make it the user's own; the result has its `scope_key`.
            private: whether it is confidential, and so never shared.

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
        checked = validate(RememberRequest, request, strict=None)
        return await remember(self.resources, identity, checked, TrustedCaller())

    @check_arguments
    async def remember_procedure(
        self, identity: AnyIdentity, title: str, steps: Sequence[str], *, scope: ExplicitScope = "user"
    ) -> Remembered:
        """Store a procedure: a title and numbered steps, found by requests for the category `procedural`.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: an empty title or step, more than 20 steps, or a value that cannot be used.
            EmbeddingError: a setting of the embedder is wrong; nothing was written.
        """
        request = validate(ProcedureRequest, {"title": title, "steps": steps, "scope": scope}, strict=None)
        return await remember_procedure(self.resources, identity, request, TrustedCaller())

    @check_arguments
    async def correct(self, identity: AnyIdentity, memory_id: AnyId, content: str) -> Corrected:
        """Replace a memory: it is closed with its date, and a new one in its place is found from then on.

        The new memory has the old one's kind, scope key, subject, category, importance and privacy. Both changes are
        one operation for `undo`. An active memory with the same text takes the place instead.

        Args:
            identity: the owner of the memory; its role's allowlist applies.
            memory_id: the memory to correct.
            content: a text as for `remember`; for a procedure its title and, below it, a line for each step.

        Raises:
            InvalidInputError: no such memory for this identity's role, no id, or a content that cannot be kept.
            NotCorrectedError: it is protected, closed, absorbed or a consolidation, or shared while the content may not
                be; or the session has had enough forgotten and corrected today.
            CategoryRefusedError: the role has no allowlist, or may not write into this category.
            EmbeddingError: a setting of the embedder is wrong; nothing was written.
            ConcurrentChangeError: the memory was changed meanwhile; nothing was written.
        """
        return await correct(self.resources, identity, to_uuid(memory_id), content, TrustedCaller())

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
        """Change values of a memory, but not its text; None leaves a value unchanged. `undo` reverses it.

        Args:
            identity: the owner of the memory; its role's allowlist applies.
            memory_id: the memory to change.
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
        """Soft-delete a memory of the identity's user or session, which can be undone; False if it was not active.

        Raises:
            InvalidInputError: no such memory for this identity's role, or no id.
            NotForgottenError: it is protected, shared, or a consolidation, or the session has forgotten enough today.
            CategoryRefusedError: the role has no allowlist.
        """
        return await forget(self.resources, identity, to_uuid(memory_id), TrustedCaller())
