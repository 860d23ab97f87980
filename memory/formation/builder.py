"""Memories from the drafts of one answer of a model: checked, with their scope keys, and without duplicates. No I/O.

A requested scope wider than the user's counts only through the rules of `memory.text.sharing` and `memory.text.proof`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.formation.grounding import (
    Attachments,
    has_unknown_number,
    is_confirmed,
    joined_digits,
)
from mnemic.memory.runtime.categories import Categories
from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.scoping import ScopeResolver
from mnemic.memory.runtime.transcript import speakers, typed_messages
from mnemic.memory.text.proof import Proof, confidential_spans
from mnemic.memory.text.shape import clean_text, clip_text
from mnemic.memory.text.sharing import ShareRequest
from mnemic.memory.text.words import folded_words
from mnemic.memory.text.writing import Verdict, check_text
from mnemic.prompts.formation.extraction import (
    ExtractFactsOutput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
    FactDraft,
    ObservationDraft,
    ReflectionDraft,
)
from mnemic.prompts.loader import Prompt
from mnemic.prompts.repair import NOTHING, ValidationIssue, refusal_summary, unusable_drafts
from mnemic.state.formation import Coverage, DuplicateDraft
from mnemic.state.graphs import FormationRun
from mnemic.state.identity import Scope, scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory, Message, NewMemory, attachment_id

#: Categories of facts that may cite the assistant or a tool alone, such as a booking. Facts of other categories cite a
#: user's message.
_OPEN_TO_OTHERS: Final = frozenset({"event", "knowledge", "projects"})
MAX_SUBJECT_CHARS: Final = 100
#: Subject of a fact, if its draft names none.
_UNKNOWN_SUBJECT: Final = "?"
#: Words in a row that a draft and the instructions do not share by chance.
_COPIED_WORDS: Final = 5
#: An observation stands for a fact and a reflection.
MAX_OBSERVATION_WORDS: Final = 50
#: Refusal of a draft whose content comes from an attachment.
_FROM_ATTACHMENT: Final = "from_attachment"
_WIDEST_FIRST: Final[tuple[Scope, ...]] = ("agent", "group", "user", "session")


class BuilderContext(NamedTuple):
    """Values that all answers of one step share."""

    resolver: ScopeResolver
    categories: Categories
    prompt: Prompt
    #: Messages as the model read them.
    shown: str
    #: Memories that are in context, and facts of this run; no reflection repeats them.
    existing: Sequence[Memory | NewMemory]


class _Origin(NamedTuple):
    """Messages that a draft cites, and the owner whose memory it becomes without sharing."""

    sources: Sequence[Message]
    owner: str | None
    #: Scope key of the owner; None if the draft needs an owner and has none.
    scope_key: str | None


@dataclass
class MemoryBuilder:
    """Builder that turns each draft of one answer into a memory or refuses it, and counts both."""

    context: BuilderContext
    #: Whether the model declares that the other messages hold nothing.
    nothing_else: bool
    #: Whether a fact of the batch is private.
    has_private: bool
    memories: dict[tuple[str, str], NewMemory] = field(default_factory=dict)
    duplicates: list[DuplicateDraft] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=lambda: Counter(first_pass=0, trimmed=0, refused=0))
    #: Refused drafts by reason.
    refused: Counter[str] = field(default_factory=Counter)
    #: Memories in context, and the reflections of this answer so far.
    _existing: list[Memory | NewMemory] = field(init=False)
    #: Typed sentences that private drafts rest on.
    _confidential: set[str] = field(default_factory=set)
    _cited: set[UUID] = field(default_factory=set)
    #: Messages that a refused draft rests on.
    _uncovered: set[UUID] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Collect the sentences of private facts that were formed from the same messages."""
        self._existing = list(self.context.existing)
        by_id = {message.id: message for message in self._batch}
        for memory in self._existing:
            if isinstance(memory, NewMemory) and memory.private:
                ids = memory.source_message_ids
                sources = [by_id[message_id] for message_id in ids if message_id in by_id]
                self._confidential |= confidential_spans(memory.content, typed_messages(sources))

    @property
    def _batch(self) -> Sequence[Message]:
        return self.context.resolver.batch

    def add_facts(self, output: ExtractFactsOutput) -> None:
        """Add the facts of an answer."""
        self.has_private = self.has_private or any(draft.private for draft in output.facts)
        self._note_confidential(output.facts)
        for draft in output.facts:
            fact = self._fact(draft)
            if fact:
                self._add(fact)

    def add_reflections(self, output: ExtractReflectionsOutput) -> None:
        """Add reflections of an answer, the widest scope first so that no narrower one repeats it. Add the episode."""
        for scope in _WIDEST_FIRST:
            self._note_confidential(getattr(output, scope))
        for scope in _WIDEST_FIRST:
            for draft in getattr(output, scope):
                self._add_reflection(scope, draft)
        if output.episode.strip():
            self._add_episode(output.episode)

    def add_observations(self, output: ExtractObservationsOutput) -> None:
        """Add the observations of an answer as reflections, the widest scope first."""
        self._note_confidential(output.observations)
        for draft in sorted(output.observations, key=lambda draft: _WIDEST_FIRST.index(draft.scope)):
            self._add_reflection(draft.scope, draft)

    def refuse_unreadable(self, count: int) -> None:
        """Count drafts that could not be read; any message may be among their sources."""
        if count:
            self.checks["refused"] += count
            self.refused["unreadable"] += count
            self.nothing_else = False

    def issue(self) -> ValidationIssue | None:
        """Return why the answer needs a repair: a draft without a source, most drafts refused, or an empty answer."""
        drafts = self.checks.total()
        if not drafts and not self.nothing_else:
            return NOTHING
        # drafts from an attachment do not make the other drafts of an answer useless
        attached = self.refused[_FROM_ATTACHMENT]
        if not self.refused["no_source"] and 2 * (self.refused.total() - attached) <= drafts - attached:
            return None
        kind = f"{self.refused.total()} of {drafts} drafts cannot be used ({refusal_summary(self.refused)})"
        advice = unusable_drafts(self.refused, drafts, len(self._batch))
        return ValidationIssue(kind, advice, is_partial=self.refused.total() < drafts)

    def add_to(self, run: FormationRun, retained: Sequence[NewMemory]) -> FormationRun:
        """Return the run with the figures and the coverage of this answer.

        Args:
            run: the run so far.
            retained: memories within the limit; the rest are counted as `over_limit`.
        """
        refused = self.refused + Counter(over_limit=len(self.memories) - len(retained))
        before = run.coverage
        coverage = Coverage(
            cited=before.cited | self._cited,
            open=before.open | self._uncovered,
            nothing_else=self.nothing_else and before.nothing_else is not False,
        )
        return replace(
            run,
            checks=added_counts(run.checks, self.checks),
            refused=added_counts(run.refused, refused),
            duplicates=[*run.duplicates, *self.duplicates],
            coverage=without_dropped(coverage, self.memories.values(), retained),
        )

    def _fact(self, draft: FactDraft) -> NewMemory | None:
        """Return the fact of a draft in its permitted scope, or None if the draft is refused."""
        origin = self._origin(draft, draft.scope)
        verdict = check_text(draft.content, kind="fact", max_words=None)
        problem = self._problem(draft.content, origin, may_cite_others=draft.category in _OPEN_TO_OTHERS)
        text = self._take(verdict, origin.sources, problem)
        if text is None:
            return None
        subject = clip_text(" ".join(clean_text(draft.subject).split()), MAX_SUBJECT_CHARS) or _UNKNOWN_SUBJECT
        fact = self._placed(draft, text, draft.scope, origin, subject)
        fact = replace(fact, provenance=draft.provenance)
        if fact.scope_key == origin.scope_key:
            return replace(fact, subject_user_id=origin.owner)
        return replace(fact, subject_user_id=self._user_named(subject))

    def _reflection(self, draft: ReflectionDraft, scope: Scope) -> NewMemory | None:
        """Return the reflection of a draft in its permitted scope, or None if the draft is refused."""
        origin = self._origin(draft, scope)
        max_words = MAX_OBSERVATION_WORDS if isinstance(draft, ObservationDraft) else None
        verdict = check_text(draft.content, kind="reflection", max_words=max_words)
        # a session's memories have no owner: they may rest on the words of the assistant or of a tool
        problem = self._problem(draft.content, origin, may_cite_others=scope == "session")
        text = self._take(verdict, origin.sources, problem)
        if text is None:
            return None
        return self._placed(draft, text, scope, origin)

    def _origin(self, draft: FactDraft | ReflectionDraft, scope: Scope) -> _Origin:
        sources = self._sources(draft)
        if scope == "session":
            return _Origin(sources, None, self._session_key)
        owner = self.context.resolver.identity.user_id
        for message in sources:
            if message.user_id:
                owner = message.user_id
                break
        if owner:
            return _Origin(sources, owner, scope_key("user", owner))
        if isinstance(draft, FactDraft) or scope == "user":
            return _Origin(sources, None, None)
        return _Origin(sources, None, self._session_key)

    @property
    def _session_key(self) -> str:
        return scope_key("session", session_of(self.context.resolver.identity))

    def _placed(
        self, draft: FactDraft | ReflectionDraft, text: str, scope: Scope, origin: _Origin, subject: str = ""
    ) -> NewMemory:
        """Return the memory of a draft with its permitted scope key and its author.

        Args:
            draft: the draft.
            text: its checked text.
            scope: requested scope.
            origin: messages and owner of the draft.
            subject: subject of a fact; a reflection has its owner as its subject.
        """
        wanted = ShareRequest(scope, text, draft.category, draft.private, group=draft.group)
        proof = self._proof(wanted, origin)
        # kept for user scope too, since a group may get the memory later; `with_shared_wording` clears it at the save
        said = proof.said if proof else None
        place = self.context.resolver.resolve(wanted, origin.sources, said, fallback=origin.scope_key or "")
        author = origin.owner
        if proof and place.scope_key != origin.scope_key:
            author = proof.author
        kind: Kind = "fact" if isinstance(draft, FactDraft) else "reflection"
        category = self.context.categories.stored_as(draft.category)
        memory = new_memory(kind, category, place.scope_key, text, origin.sources[-1].said_at, subject)
        return replace(
            self._with_sources(memory, origin.sources),
            importance=min(5, max(1, draft.importance)),
            private=draft.private,
            tags=place.tags,
            actor_id=author,
            said=said,
        )

    def _proof(self, draft: ShareRequest, origin: _Origin) -> Proof | None:
        """Return the typed sentence of a draft; a draft of user scope rests on the user's own words alone."""
        resolver, sources = self.context.resolver, origin.sources
        if not resolver.identity.group_ids and draft.scope != "agent":
            return None
        if draft.scope == "user":
            sources = [message for message in sources if message.user_id == origin.owner]
        return resolver.prove(draft, sources, self._confidential)

    def _add_reflection(self, scope: Scope, draft: ReflectionDraft) -> None:
        memory = self._reflection(draft, scope)
        if memory is None:
            return
        wording = memory.content.casefold().rstrip(".")
        is_repeated = False
        for existing in self._existing:
            if wording not in existing.content.casefold():
                continue
            is_repeated, is_stored = True, isinstance(existing, Memory)
            self.duplicates.append(
                DuplicateDraft(new=memory, known_id=existing.id, scope_key=existing.scope_key, is_stored=is_stored)
            )
        if not is_repeated:
            self._existing.append(memory)
            self._add(memory)

    def _add_episode(self, text: str) -> None:
        """Add the episode; if several people speak, it is the session's, since no typed sentence proves a summary."""
        written = [message.content for message in self._batch if message.role != "attachment"]
        problem = None
        if Attachments.of(self._batch, written).supply(text, ()):
            problem = _FROM_ATTACHMENT
        content = self._take(check_text(text, kind="episode"), (), problem)
        if content is None:
            return
        users = speakers(self._batch)
        key = scope_key("user", users[0]) if len(users) == 1 else self._session_key
        last = self._batch[-1:]
        episode = new_memory("episode", "event", key, content, last[0].said_at)
        self._add(self._with_sources(episode, last))

    def _note_confidential(self, drafts: Iterable[FactDraft | ReflectionDraft]) -> None:
        """Note the sentences of private drafts before any memory is made, since no shared one may quote them."""
        for draft in drafts:
            if draft.private:
                self._confidential |= confidential_spans(draft.content, typed_messages(self._sources(draft)))

    def _sources(self, draft: FactDraft | ReflectionDraft) -> list[Message]:
        return [message for number, message in enumerate(self._batch, start=1) if number in draft.messages]

    def _problem(self, text: str, origin: _Origin, *, may_cite_others: bool) -> str | None:
        """Return why a draft may not rest on the messages that it cites, or None.

        Args:
            text: text of the draft.
            origin: messages and owner of the draft.
            may_cite_others: whether it may cite messages of the assistant or of tools alone.
        """
        sources = origin.sources
        if not sources:
            return "no_source"
        if self._attachments.supply(text, sources):
            return _FROM_ATTACHMENT
        if not may_cite_others and not typed_messages(sources):
            return "not_own_words"
        known = list(self.context.resolver.groups)
        for memory in self._existing:
            known.append(memory.content)
        if not is_confirmed(text, sources, self._batch, known):
            return "not_own_words"
        if has_unknown_number(text, self._shown_digits):
            return "not_in_conversation"
        if origin.scope_key is None:
            return "no_owner"
        return None

    @cached_property
    def _attachments(self) -> Attachments:
        texts = list(self.context.resolver.groups)
        for message in self._batch:
            texts.append(message.typed_text)
        return Attachments.of(self._batch, texts)

    @cached_property
    def _shown_digits(self) -> str:
        texts = [self.context.shown]
        for row in [*self._batch, *self._existing]:
            texts.append(row.content)
        return joined_digits("\n".join(texts))

    def _take(self, verdict: Verdict, sources: Sequence[Message], problem: str | None) -> str | None:
        """Count a draft and return its text, or None if it is refused.

        Args:
            verdict: result of the text's check.
            sources: messages that the draft cites.
            problem: why the draft may not rest on them.
        """
        ids = ids_of(sources)
        problem = problem or verdict.problem or self._copied(verdict.text or "")
        if problem or verdict.text is None:
            self.checks["refused"] += 1
            self.refused[problem or "empty"] += 1
            self._uncovered |= ids
            return None
        self.checks["trimmed" if verdict.trimmed else "first_pass"] += 1
        self._cited |= ids
        return verdict.text

    def _copied(self, text: str) -> str | None:
        """Return the refusal of a text that repeats the instructions, or None."""
        words = folded_words(text)
        if len(words) >= _COPIED_WORDS and _between_spaces(words) in _folded_instructions(self.context.prompt.system):
            return "copied"
        return None

    def _user_named(self, subject: str) -> str | None:
        """Return the speaker whose display name is the subject of a shared fact, or None."""
        for message in self._batch:
            if message.user_id and message.author == subject:
                return message.user_id
        return None

    def _with_sources(self, memory: NewMemory, sources: Sequence[Message]) -> NewMemory:
        """Return a memory, inferred from these messages of the session."""
        return replace(
            memory,
            provenance="inferred",
            source_session_id=self.context.resolver.identity.session_id,
            source_message_ids=self._with_attachments(sources),
        )

    def _with_attachments(self, sources: Sequence[Message]) -> tuple[UUID, ...]:
        """Return the ids of sources and of their attachments, so that an erasure of the memory reaches both."""
        batch = ids_of(self._batch)
        ids: dict[UUID, None] = {}
        for message in sources:
            ids[message.id] = None
            if attachment_id(message.id) in batch:
                ids[attachment_id(message.id)] = None
        return tuple(ids)

    def _add(self, memory: NewMemory) -> None:
        self.memories.setdefault((memory.scope_key, memory.content), memory)


@cache
def _folded_instructions(system: str) -> str:
    """Return the words of a step's instructions, which hold no text of a user; each of the few steps has one text."""
    return _between_spaces(folded_words(system))


def _between_spaces(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def without_dropped(coverage: Coverage, drafted: Iterable[NewMemory], retained: Iterable[NewMemory]) -> Coverage:
    """Return the coverage without the messages that only dropped memories rest on; these are open again."""
    lost = _cited_by(drafted) - _cited_by(retained)
    return replace(coverage, cited=coverage.cited - lost, open=coverage.open | lost)


def _cited_by(memories: Iterable[NewMemory]) -> set[UUID]:
    """Return the sources of these memories; an episode cites no message."""
    cited: set[UUID] = set()
    for memory in memories:
        if memory.kind != "episode":
            cited.update(memory.source_message_ids)
    return cited


def added_counts(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of two figures by name."""
    return {name: old.get(name, 0) + new.get(name, 0) for name in [*old, *new]}


def ids_of(rows: Iterable[Message | NewMemory]) -> set[UUID]:
    """Return the ids of messages or memories."""
    return {row.id for row in rows}


def most_important(memories: Sequence[NewMemory], limit: int) -> list[NewMemory]:
    """Return the most important memories in the order given; of equally important ones the first."""
    ranked = sorted(memories, key=lambda memory: -memory.importance)
    ids = ids_of(ranked[:limit])
    return [memory for memory in memories if memory.id in ids]
