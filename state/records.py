"""Frozen records that several packages use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from pydantic import with_config
from typing_extensions import TypedDict

from mnemic.state.identity import Scope, is_shared, scope_key, split_scope_key
from mnemic.state.kinds import Kind, Provenance, RelationType, ResultKind, Role, State

#: Tag of a memory that would be shared with all users if its author taught the agent; propagation reads it.
CANDIDATE: Final = "candidate"
#: Lines of a message's content in place of attachments.
ATTACHMENT_MARKS: Final = frozenset({"[image]", "[audio]", "[video]", "[file]"})


def attachment_id(message_id: UUID) -> UUID:
    """Return the id under which the text of a message's attachments is stored."""
    return uuid5(message_id, "attachment")


@dataclass(frozen=True, kw_only=True)
class Message:
    """One observed message of a session.

    Attributes:
        id: id of the message.
        session_id: session that it belongs to.
        role: `user`, `assistant`, `tool`, `other`, or `attachment` for the text of a file.
        author: display name of the speaker.
        user_id: user who sent it; None for the assistant and tools. The sender of an attachment is not the author of
            its text.
        content: text of the message. A user's message has a mark for each attachment; the text of attachments is a
            separate message with the role `attachment`.
        said_at: time at the offset of the message, or of the person's time zone.
        submitted_by: actor of the run that observed it; another person may have written it.
        attached_to: id of the message of a new attachment.
    """

    id: UUID
    session_id: str
    role: Role
    author: str
    user_id: str | None
    content: str
    said_at: datetime
    submitted_by: str | None = None
    attached_to: UUID | None = None

    @property
    def typed_text(self) -> str:
        """Typed text of a user's message, without the marks of attachments; empty for other roles."""
        if self.role != "user":
            return ""
        if "[" not in self.content:
            return self.content
        typed = [line for line in self.content.splitlines() if line not in ATTACHMENT_MARKS]
        return "\n".join(typed)

    @property
    def scope_key(self) -> str:
        """Scope key of its readers: the user who sent it, or the session for a message without a user."""
        if self.user_id:
            return scope_key("user", self.user_id)
        return scope_key("session", self.session_id)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One stored memory.

    Attributes:
        id: id of the memory.
        kind: kind of the memory.
        scope_key: scope key that it belongs to, such as `user:ana`.
        category: its category.
        content: its text.
        subject: person or thing that it is about.
        subject_user_id: user id of that person; None without an account.
        importance: 1 trivial to 5 vital.
        pinned: whether maintenance keeps it however long it is not used.
        protected: whether only an administrator may change it.
        private: whether it is confidential, and so never shared.
        provenance: `asserted` by a person, `inferred` by a model, or `consolidated` from several memories.
        state: state of its life, such as `active` or `superseded`.
        tokens: its size in tokens.
        version: number of its changes.
        valid_from: begin of its validity; this and `valid_until` are at the offset of the message that it was formed
            from.
        valid_until: end of its validity; None if it still holds, or if the memory that replaced it says the same.
        superseded_by: memory that replaced it; None without one.
        source_session_id: session that it was formed in; None without one.
        created_at: time at which it was stored.
        updated_at: time of its last change.
        actor_id: actor of the operation that stored it.
        tags: its tags; None if they were not read.
        said: whole sentence that a member typed and that the memory rests on; None if unknown.
    """

    id: UUID
    kind: Kind
    scope_key: str
    category: str
    content: str
    subject: str
    subject_user_id: str | None
    importance: int
    pinned: bool
    protected: bool
    private: bool
    provenance: Provenance
    state: State
    tokens: int
    version: int
    valid_from: datetime
    valid_until: datetime | None
    superseded_by: UUID | None
    source_session_id: str | None
    created_at: datetime
    updated_at: datetime
    actor_id: str | None = None
    tags: list[str] | None = None
    said: str | None = None

    @property
    def author(self) -> str | None:
        """Author shown to other readers; None for an unshared memory, or one of several people."""
        if not is_shared(self.scope_key) or (self.provenance == "consolidated" and self.said is None):
            return None
        return self.actor_id


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A relation from a new memory to a stored one, or to one that is stored with it."""

    to_id: UUID
    #: Strength from 0 to 1; the cosine similarity for `related_to`.
    strength: float
    relation_type: RelationType = "related_to"


@dataclass(frozen=True, kw_only=True)
class NewMemory:
    """A memory that is about to be stored."""

    id: UUID
    kind: Kind
    scope_key: str
    category: str
    content: str
    #: Text that is indexed and embedded, and not stored: `[date] subject: content`.
    search_text: str
    subject: str
    valid_from: datetime
    subject_user_id: str | None = None
    importance: int = 2
    private: bool = False
    provenance: Provenance = "asserted"
    tags: tuple[str, ...] = ()
    source_session_id: str | None = None
    source_message_ids: tuple[UUID, ...] = ()
    relations: tuple[Relation, ...] = ()
    #: Author; None for the actor of the operation.
    actor_id: str | None = None
    #: Whole sentence that a member typed and that the memory rests on; None if unknown.
    said: str | None = None
    #: Text that a model wrote, if readers get the typed sentence instead; only formation reads it.
    draft: str | None = None


class Supersession(NamedTuple):
    """An active fact that another memory replaces, guarded by the version that was read."""

    old_id: UUID
    old_version: int
    new_id: UUID
    #: End of its validity; None if the new memory says the same.
    until: datetime | None


class StaleMemory(NamedTuple):
    """A fact that no longer holds, and a reflection that rests on the same words."""

    #: Id, scope key and content of the reflection, and whether no consolidation has absorbed it yet.
    part_id: UUID
    scope_key: str
    part: str
    is_waiting: bool
    #: Id and content of the fact, and the end of its validity.
    id: UUID
    content: str
    since: datetime
    #: Content of the fact that replaced it; None if there is none, or if the readers of the scope key may not see it.
    now: str | None


class IndexedText(NamedTuple):
    """A text for the search index: the search text of a memory, or one piece of a message."""

    item_id: UUID
    text: str
    #: 0 for a memory; pieces of a long message count up.
    piece: int = 0
    #: None while the embedding is pending; a text search alone finds such an entry.
    vector: Sequence[float] | None = None


class PendingText(NamedTuple):
    """A memory, or a piece of a message, that waits for its vector."""

    item_id: UUID
    piece: int
    kind: str
    #: Subject of a memory, author of a message.
    subject: str
    content: str
    dated: datetime
    content_hash: UUID


@dataclass(frozen=True, kw_only=True)
class FilledVectors:
    """Counts of vectors that were filled later.

    Attributes:
        embedded: vectors that were stored.
        pending: entries that still wait for a vector; a text search alone finds them.
    """

    embedded: int
    pending: int


@dataclass(frozen=True, kw_only=True)
class Reembedded:
    """Counts of a move to another embedder.

    Attributes:
        agents: agents that now search with the new embedder.
        embedded: vectors that this call made.
        refused: texts that the embedder refused; a text search alone finds them.
    """

    agents: int
    embedded: int
    refused: int


@with_config({"extra": "forbid"})
class ScopeChanges(TypedDict, total=False):
    """Changes of the settings of a scope key; None restores the general setting."""

    name: str | None
    extraction_guidance: str | None
    consolidation_guidance: str | None
    is_active: bool
    threshold: int | None
    word_limit: int | None


@dataclass(frozen=True, kw_only=True)
class ScopeSettings:
    """Settings of a scope key; None selects the general setting.

    Attributes:
        scope_key: the scope key.
        name: name of a group or session for people; None for its id.
        extraction_guidance: instructions for the extraction of its memories.
        consolidation_guidance: instructions for its consolidation.
        is_active: whether its reflections are consolidated.
        threshold: number of unabsorbed reflections that makes a consolidation due.
        word_limit: maximum number of words of the consolidation.
    """

    scope_key: str
    name: str | None = None
    extraction_guidance: str | None = None
    consolidation_guidance: str | None = None
    is_active: bool = True
    threshold: int | None = None
    word_limit: int | None = None


class Unabsorbed(NamedTuple):
    """Unabsorbed reflections of a scope key, and its settings of consolidations."""

    waiting: int = 0
    is_active: bool = True
    threshold: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScopeContext:
    """The always-in-context part of one scope key."""

    scope_key: str
    consolidation: Memory | None = None
    core: tuple[Memory, ...] = ()
    #: Unabsorbed reflections, oldest first.
    reflections: tuple[Memory, ...] = ()
    #: Facts of categories that are always in context.
    facts: tuple[Memory, ...] = ()

    @property
    def scope(self) -> Scope:
        """The scope part of the key."""
        return split_scope_key(self.scope_key)[0]

    @property
    def text(self) -> str:
        """All contents as plain text."""
        return "\n".join(memory.content for memory in [*self.texts, *self.facts])

    @property
    def tokens(self) -> int:
        """Tokens of the context memory: of all texts but the facts."""
        return sum(memory.tokens for memory in self.texts)

    @property
    def texts(self) -> list[Memory]:
        """Memories that are in context in any category: all but the facts."""
        texts = list(self.core)
        if self.consolidation:
            texts.append(self.consolidation)
        texts.extend(self.reflections)
        return texts


class TurnWords(NamedTuple):
    """Words of a turn, in lower case."""

    #: All words, by which the database recognizes the language.
    all: Sequence[str]
    #: Words that may be in a memory, each once.
    content: Sequence[str]


class WordCounts(NamedTuple):
    """Searchable entries with the words of a turn, without facts that are always in context."""

    #: Whether the turn is in the language whose grammar the text search knows.
    is_indexed_language: bool
    #: Number of entries by word; -1 for a function word of the turn's language.
    by_word: Mapping[str, int]
    #: Words of the turn that one entry has and few entries have, of each such entry; equal ones once.
    rare_by_entry: Sequence[frozenset[str]]


class ContextPart(NamedTuple):
    """All memories that are always in context for the visible scope keys."""

    #: Settings that the agent overrides, read by the same statement.
    overrides: dict[str, Any]
    #: Contexts in the order of the transaction's scope keys, without empty ones.
    scopes: tuple[ScopeContext, ...]
    #: Counts of the turn's words, if they were requested.
    counts: WordCounts | None = None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Parts of the score of a search result.

    Attributes:
        text: rank by text (ts_rank); None without one.
        similarity: cosine similarity; None without a vector.
        fused: both in one figure from 0 to 1, before the boosts.
        from_source: whether the score is that of a source message, which fits better than the memory's text.
        boosts: boosts by name; the score is the sum of these and `fused`.
    """

    text: float | None = None
    similarity: float | None = None
    fused: float = 0.0
    from_source: bool = False
    boosts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """One search result: a memory, or a message that was kept as a source.

    Attributes:
        id: id of the memory or message.
        kind: kind of the memory, or `message`.
        scope_key: scope key that it belongs to, such as `user:ana`.
        category: category of the memory.
        subject: subject of a memory, author of a message.
        content: text of the memory or message.
        dated: begin of the validity of a memory, time of a message.
        importance: 1 trivial to 5 vital.
        score: its score, by which the results are ordered.
        created_at: time of its storage; for a message, its own time.
        updated_at: time of its last change; for a message, its own time.
        pinned: whether maintenance keeps it however long it is not used.
        tags: its tags.
        state: state of its life, such as `active` or `superseded`.
        author: author of a memory; None if it has several.
        explanation: parts of the score.
        session_id: session of a message, or that a memory was formed in; None without one.
        related_to: result that it was added to as a related memory; None for a result of the search itself.
        supersedes: memories that it replaced.
        role: role of a message; None for a memory.
        excerpt: passage of a message above 500 characters that fits the question, with an ellipsis at each cut.
        said: whole sentence that a member typed and that the memory rests on; None if unknown.
    """

    id: UUID
    kind: ResultKind
    scope_key: str
    category: str
    subject: str
    content: str
    dated: datetime
    importance: int
    score: float
    created_at: datetime
    updated_at: datetime
    pinned: bool = False
    tags: Sequence[str] = ()
    state: State = "active"
    author: str | None = None
    explanation: Explanation = field(default_factory=Explanation)
    session_id: str | None = None
    related_to: UUID | None = None
    supersedes: Sequence[UUID] = ()
    role: Role | None = None
    excerpt: str | None = None
    said: str | None = None

    @property
    def shown(self) -> str:
        """The text of a line: the excerpt of a long message, else the content."""
        return self.excerpt or self.content


@dataclass(frozen=True, kw_only=True)
class HistoryEvent:
    """One audited change of one memory.

    Attributes:
        revision: number of the change in the history of the agent.
        op_id: the operation, which `history.undo` takes.
        event: kind of the change, such as `ADD` or `SUPERSEDE`.
        memory_id: the changed memory; None for an event of no memory.
        scope_key: scope key of the memory; None for an event of no memory.
        actor: person or program that made the change.
        submitted_by: users who submitted messages of other authors that it was formed from.
        reason: code of the reason.
        session_id: session of the change; None without one.
        ts: time of the change.
        before: text before the change; None without one.
        after: text after the change; None without one.
        changes: values that an `update` changed, each before and after.
        merged_from: in the first row of a memory, the readable memories that were merged into it; empty after an undo.
        merged_into: in the row of a merge, the memory that it was merged into; None after an undo.
        supersedes: in the first row of a memory, the memories that it replaced.
        superseded_by: in the row of its replacement, the new memory; None without one.
    """

    revision: int
    op_id: UUID
    event: str
    memory_id: UUID | None
    scope_key: str | None
    actor: str
    submitted_by: list[str] = field(default_factory=list)
    reason: str
    session_id: str | None
    ts: datetime
    before: str | None = None
    after: str | None = None
    changes: dict[str, list[Any]] = field(default_factory=dict)
    merged_from: list[UUID] = field(default_factory=list)
    merged_into: UUID | None = None
    supersedes: list[UUID] = field(default_factory=list)
    superseded_by: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Result of `observe`.

    Attributes:
        accepted: messages stored for the first time by this call.
        pending: messages of the session that wait for formation.
    """

    accepted: int
    pending: int
