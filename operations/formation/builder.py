"""Turns the drafts that a step answered into memories: checked, placed, and nothing that is known already. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import uuid4

from mnemic.operations.formation.drafts import Drafts, ScopeResolver
from mnemic.operations.messages.transcript import cited, own_words, owner_of, speakers
from mnemic.operations.run.identity import session_of
from mnemic.policy.categories import Categories
from mnemic.policy.formation.sharing import Draft
from mnemic.policy.text.shape import clean_text, clip_text, display_name, search_text
from mnemic.policy.text.writing import check_text
from mnemic.prompts.extraction import (
    ExtractFactsOutput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
    FactDraft,
    ReflectionDraft,
)
from mnemic.state.formation import Repeat
from mnemic.state.identity import Scope, scope_key, split_scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory, Message, NewMemory

#: What the text of an assistant, a tool or a pasted document may tell; what somebody is, wants or has to do is theirs
#: to say.
_OPEN_TO_OTHERS: Final = frozenset({"event", "activity", "knowledge", "projects"})
MAX_SUBJECT_CHARS: Final = 100
#: An observation says what a fact and a reflection would say together.
MAX_OBSERVATION_WORDS: Final = 50
_WIDEST_FIRST: Final[tuple[Scope, ...]] = ("agent", "group", "user")


@dataclass
class MemoryBuilder:
    """The memories of one answer."""

    resolver: ScopeResolver
    categories: Categories
    drafts: Drafts
    #: What stands in context, or is about to be stored as a fact; no reflection says it again.
    known: list[Memory | NewMemory]
    memories: dict[tuple[str, str], NewMemory] = field(default_factory=dict)
    #: What was dropped because it is known.
    repeats: list[Repeat] = field(default_factory=list)

    def add_facts(self, output: ExtractFactsOutput) -> None:
        """Facts, each its owner's, or of a wider scope."""
        for draft in output.facts:
            self._add_fact(draft)

    def add_reflections(self, output: ExtractReflectionsOutput) -> None:
        """The widest scope first: a lower one holds only what no higher one says."""
        by_scope: dict[Scope, Sequence[ReflectionDraft]] = {
            "agent": output.agent,
            "group": output.group,
            "user": output.user,
            "session": output.session,
        }
        for scope, drafts in by_scope.items():
            for draft in drafts:
                self._add_reflection(scope, draft)

    def add_observations(self, output: ExtractObservationsOutput) -> None:
        """Reflections of a single call; they stand for facts, too, and may be longer. The widest scope first."""
        for draft in sorted(output.observations, key=lambda draft: _WIDEST_FIRST.index(draft.scope)):
            self._add_reflection(draft.scope, draft, max_words=MAX_OBSERVATION_WORDS)

    def add_episode(self, text: str, *, private: bool) -> None:
        """At most one; in a group it is the group's where the gate of `policy.formation.sharing` lets it pass."""
        if not text.strip():
            return
        content = self.drafts.take(check_text(text, kind="episode"), ())
        if content is None:
            return
        batch = self.resolver.batch
        private = private or any(memory.private for memory in self.memories.values())
        who = speakers(batch)
        key = self._own_key(who[0] if len(who) == 1 else None)
        if len(who) != 1:
            users = [message for message in batch if message.role == "user"]
            key = self.resolver.resolve(Draft("group", content, "event", 5, private), users, fallback=key)
        self._keep(self._memory("episode", key, content, batch[-1:]))

    def _add_fact(self, draft: FactDraft) -> None:
        sources = cited(self.resolver.batch, draft.messages)
        owner = owner_of(sources, self.resolver.identity)
        is_own_word = bool(own_words(sources)) or draft.category in _OPEN_TO_OTHERS
        problem = _unfounded(sources, is_own_word=is_own_word, has_owner=owner is not None)
        text = self.drafts.take(check_text(draft.content, kind="fact"), sources, problem)
        if text is None or owner is None:
            return
        own_key = scope_key("user", owner)
        wanted = Draft(draft.scope, text, draft.category, draft.importance, draft.private, draft.provenance)
        key = self.resolver.resolve(wanted, sources, fallback=own_key)
        subject = clip_text(" ".join(clean_text(draft.subject).split()), MAX_SUBJECT_CHARS) or "?"
        fact = self._rated(self._memory("fact", key, text, sources, subject), draft)
        self._keep(replace(fact, subject_user_id=owner if key == own_key else None, provenance=draft.provenance))

    def _add_reflection(self, scope: Scope, draft: ReflectionDraft, max_words: int | None = None) -> None:
        sources = cited(self.resolver.batch, draft.messages)
        owner = owner_of(sources, self.resolver.identity)
        is_own_word = scope == "session" or bool(own_words(sources))
        problem = _unfounded(sources, is_own_word=is_own_word, has_owner=scope != "user" or owner is not None)
        content = self.drafts.take(check_text(draft.content, kind="reflection", max_words=max_words), sources, problem)
        if content is None:
            return
        wanted = Draft(scope, content, draft.category, draft.importance, draft.private)
        own_key = self._own_key(owner if scope != "session" else None)
        key = self.resolver.resolve(wanted, sources, fallback=own_key)
        memory = self._rated(self._memory("reflection", key, content, sources), draft)
        wording = content.casefold().rstrip(".")
        if known := [text for text in self.known if wording in text.content.casefold()]:
            self.repeats += [
                Repeat(new=memory, known_id=text.id, scope_key=text.scope_key, is_stored=isinstance(text, Memory))
                for text in known
            ]
            return
        self.known.append(memory)
        self._keep(memory)

    def _own_key(self, user: str | None) -> str:
        """The user's, or the session's."""
        return scope_key("user", user) if user else scope_key("session", session_of(self.resolver.identity))

    def _memory(
        self, kind: Kind, key: str, text: str, sources: Sequence[Message], subject: str | None = None
    ) -> NewMemory:
        subject = subject or display_name(split_scope_key(key)[1])
        dated = sources[-1].said_at
        return NewMemory(
            id=uuid4(),
            kind=kind,
            scope_key=key,
            category="event",
            content=text,
            search_text=search_text(dated, subject, text),
            subject=subject,
            provenance="inferred",
            valid_from=dated,
            source_session_id=self.resolver.identity.session_id,
            source_message_ids=tuple(message.id for message in sources),
        )

    def _rated(self, memory: NewMemory, draft: FactDraft | ReflectionDraft) -> NewMemory:
        importance = min(5, max(1, draft.importance))
        category = self.categories.stored_as(draft.category)
        return replace(memory, category=category, importance=importance, private=draft.private)

    def _keep(self, memory: NewMemory) -> None:
        self.memories.setdefault((memory.scope_key, memory.content), memory)


def _unfounded(sources: Sequence[Message], *, is_own_word: bool, has_owner: bool) -> str | None:
    """Why a draft may not rest on the messages it cites.

    Args:
        is_own_word: whether those who said it may tell such a thing.
        has_owner: whether there is somebody whose memory it could be.
    """
    if not sources:
        return "no_source"
    if not is_own_word:
        return "not_own_words"
    return None if has_owner else "no_owner"
