"""Frozen records that the rooms hand to one another."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from mnemic.state.attribution import is_shared
from mnemic.state.identity import Scope, scope_key, split_scope_key
from mnemic.state.kinds import Kind, Provenance, RelationType, ResultKind, Role, State

#: Tag of what would be everybody's, had a person who teaches the agent said it; propagation looks at these.
CANDIDATE: Final = "candidate"
#: Lines of a message's content in place of what was attached.
ATTACHMENT_MARKS: Final = frozenset({"[image]", "[audio]", "[video]", "[file]"})


def attachment_id(message_id: UUID) -> UUID:
    """Return the id under which the text of a message's attachments is stored."""
    return uuid5(message_id, "attachment")


@dataclass(frozen=True, kw_only=True)
class Message:
    """One observed message of a session."""

    id: UUID
    session_id: str
    role: Role
    #: The speaker's display name.
    author: str
    #: The user who sent it; None for the assistant and tools. Sending an attachment does not make its text theirs.
    user_id: str | None
    #: Of a user's message the typed text, with a mark for each attachment; the text of attachments is a message of its
    #: own, of the role `attachment`.
    content: str
    #: At the offset that came with the message, or that of the person's time zone.
    said_at: datetime
    #: The actor of the run that observed it, who need not have said it.
    submitted_by: str | None = None
    #: Of a new attachment, the id of its message.
    attached_to: UUID | None = None

    @property
    def typed_text(self) -> str:
        """Text that a person typed: of a user's message, without the marks of attachments; empty for other roles."""
        if self.role != "user":
            return ""
        if "[" not in self.content:
            return self.content
        return "\n".join(line for line in self.content.splitlines() if line not in ATTACHMENT_MARKS)

    @property
    def scope_key(self) -> str:
        """Who may find this message: its speaker, or the session where no user spoke."""
        return scope_key("user", self.user_id) if self.user_id else scope_key("session", self.session_id)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One stored memory."""

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
    #: At the offset of the message it was formed from; so is `valid_until`.
    valid_from: datetime
    #: When it ceased to hold. None: it has not, or it holds on in the words of what replaced it.
    valid_until: datetime | None
    superseded_by: UUID | None
    source_session_id: str | None
    created_at: datetime
    updated_at: datetime
    #: Who brought it.
    actor_id: str | None = None
    tags: list[str] | None = None
    #: Whole sentence that a member typed and that the memory rests on; None if unknown.
    said: str | None = None

    @property
    def author(self) -> str | None:
        """Author shown to other readers; None for an unshared memory, or one of several people."""
        has_author = self.provenance != "consolidated" or self.said is not None
        return self.actor_id if is_shared(self.scope_key) and has_author else None


@dataclass(frozen=True, kw_only=True)
class Relation:
    """From a new memory to one that is there already, or is stored with it."""

    to_id: UUID
    #: 0..1; of `related_to` the cosine similarity of the two.
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
    #: What is indexed and embedded, and not stored: `[date] subject: content`.
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
    #: Whose word it is. None: theirs who act.
    actor_id: str | None = None
    #: Whole sentence that a member typed and that the memory rests on; None if unknown.
    said: str | None = None
    #: Text that a model wrote, if readers get the typed sentence instead; only formation reads it.
    draft: str | None = None


class Supersession(NamedTuple):
    """A living fact that another memory replaces, guarded by the version that was read."""

    old_id: UUID
    old_version: int
    new_id: UUID
    #: The moment it ceased to hold; None: it holds on, in the words of what replaces it.
    until: datetime | None


class StaleMemory(NamedTuple):
    """A fact that no longer holds, and a reflection that rests on the same words."""

    #: The reflection, in which scope key, what it says, and whether no consolidation has taken it in yet.
    part_id: UUID
    scope_key: str
    part: str
    is_waiting: bool
    #: The fact, what it said, and since when it does not hold.
    id: UUID
    content: str
    since: datetime
    #: What holds instead; None: nothing, or it is not for the readers of the scope key.
    now: str | None


class IndexedText(NamedTuple):
    """A text to be searched: a memory's search text, or one piece of a message."""

    item_id: UUID
    text: str
    #: 0 for a memory; pieces of a long message count up.
    piece: int = 0
    #: None while the embedding is pending; such an entry is found by text only.
    vector: Sequence[float] | None = None


class PendingText(NamedTuple):
    """A memory, or a message of which one piece is meant, that waits for its vector."""

    item_id: UUID
    piece: int
    kind: str
    #: Of a message its author.
    subject: str
    content: str
    dated: datetime
    content_hash: UUID


class FilledVectors(NamedTuple):
    """Counts of vectors that were filled later."""

    #: Vectors that were stored.
    embedded: int
    #: Entries that still wait for a vector and are found by their words alone.
    pending: int


class Reembedded(NamedTuple):
    """Counts of a move to another embedder."""

    #: Agents whose searches use the embedder from now on.
    agents: int
    #: Vectors that this call made.
    embedded: int
    #: Texts that the embedder refused; they are found by their words alone.
    refused: int


@dataclass(frozen=True, kw_only=True)
class ScopeSettings:
    """What a scope key overrides; None means the general setting."""

    scope_key: str
    name: str | None = None
    extraction_guidance: str | None = None
    consolidation_guidance: str | None = None
    is_active: bool = True
    #: Unabsorbed reflections that make a consolidation due.
    threshold: int | None = None
    #: Words the consolidation may have.
    word_limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScopeContext:
    """The always-in-context part of one scope key."""

    scope_key: str
    consolidation: Memory | None = None
    core: tuple[Memory, ...] = ()
    #: Unabsorbed reflections, oldest first.
    reflections: tuple[Memory, ...] = ()
    #: Those of the categories that are always in context.
    facts: tuple[Memory, ...] = ()

    @property
    def scope(self) -> Scope:
        """The scope part of the key."""
        return split_scope_key(self.scope_key)[0]

    @property
    def text(self) -> str:
        """All of it as plain text."""
        return "\n".join(memory.content for memory in [*self.texts, *self.facts])

    @property
    def tokens(self) -> int:
        """Of the core memory: all but the facts."""
        return sum(memory.tokens for memory in self.texts)

    @property
    def texts(self) -> list[Memory]:
        """What is in context whatever its category: all but the facts."""
        return [*self.core, *([self.consolidation] if self.consolidation else []), *self.reflections]


class ContextPart(NamedTuple):
    """All that is always in context for the visible scope keys."""

    #: What the agent overrides of the settings; read along, for a recall has no statement to spare.
    overrides: dict[str, Any]
    #: In the order of the transaction's scope keys; empty ones are left out.
    scopes: tuple[ScopeContext, ...]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a search result has its score: what the two branches saw, and what was added."""

    #: Rank by text (ts_rank), and cosine similarity; None where there was nothing to compare.
    text: float | None = None
    similarity: float | None = None
    #: Both in one figure from 0 to 1, before anything is added.
    fused: float = 0.0
    #: Whether the score is that of a message it was formed from, which fits better than its own words do.
    from_source: bool = False
    #: What was added, by name; the score is the sum of these and `fused`.
    boosts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """One search result: a memory, or a message that was kept as a source."""

    item_id: UUID
    kind: ResultKind
    scope_key: str
    category: str
    #: Who it is about, or who said it.
    subject: str
    content: str
    #: When it became true, or was said.
    dated: datetime
    importance: int
    score: float
    #: Of a message, both are when it was said.
    created_at: datetime
    updated_at: datetime
    pinned: bool = False
    tags: Sequence[str] = ()
    state: State = "active"
    #: Who brought a memory; None if several did.
    author: str | None = None
    explanation: Explanation = field(default_factory=Explanation)
    session_id: str | None = None
    #: The result it came along with, being related to it; None: it was found itself.
    related_to: UUID | None = None
    #: Memories that it replaced.
    supersedes: Sequence[UUID] = ()
    #: Role of a message; the text of an attachment is the words of no speaker.
    role: Role | None = None
    #: Of a message above 500 characters, the passage that fits the question, with an ellipsis at each cut.
    excerpt: str | None = None
    #: Of a memory, the whole sentence that a member typed and that the memory rests on; None if unknown.
    said: str | None = None

    @property
    def shown(self) -> str:
        """The text of a line: the excerpt of a long message, else the content."""
        return self.excerpt or self.content


@dataclass(frozen=True, kw_only=True)
class HistoryEvent:
    """One audited change of one memory."""

    revision: int
    op_id: UUID
    event: str
    memory_id: UUID | None
    scope_key: str | None
    actor: str
    #: Who brought words of somebody else that it was formed from.
    submitted_by: list[str] = field(default_factory=list)
    reason: str
    session_id: str | None
    ts: datetime
    before: str | None = None
    after: str | None = None
    #: Of a memory's first row: what was merged into it, as far as the reader may read that; and of the row that tells
    #: that it was merged: what it was merged into. Undone, neither is told.
    merged_from: list[UUID] = field(default_factory=list)
    merged_into: UUID | None = None
    #: Of a memory's first row: what it replaced; of the row of its own replacement: what replaced it.
    supersedes: list[UUID] = field(default_factory=list)
    superseded_by: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What `observe` answers."""

    #: Messages stored for the first time by this call.
    accepted: int
    #: Messages of the session that wait for formation.
    pending: int
