"""Turns reflections and observations that a step answered into memories: checked, placed, nothing known. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from mnemic.operations.formation.drafts import Drafts, unfounded
from mnemic.operations.formation.repeats import Known, repeats
from mnemic.operations.formation.scope_resolver import Draft, Places
from mnemic.operations.messages.speakers import cited, own_words, owner_of, session_of, speakers
from mnemic.policy.categories import Categories
from mnemic.policy.text.names import display_name
from mnemic.policy.text.search_text import search_text
from mnemic.policy.text.writing import check_text
from mnemic.prompts.extract_observations import ExtractObservationsOutput
from mnemic.prompts.extract_reflections import ExtractReflectionsOutput, ReflectionDraft
from mnemic.state.identity import Scope, scope_key, split_scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Message, NewMemory

#: An observation says what a fact and a reflection would say together.
MAX_OBSERVATION_WORDS = 50
_WIDEST_FIRST: tuple[Scope, ...] = ("agent", "group", "user")


@dataclass
class Thoughts:
    """Reflections and the episode of one run."""

    places: Places
    #: What stands in context, or is about to be stored as a fact.
    known: list[Known]
    categories: Categories
    drafts: Drafts
    memories: dict[tuple[str, str], NewMemory] = field(default_factory=dict)
    #: What was dropped because it is known.
    repeats: list[dict[str, Any]] = field(default_factory=list)

    def add_reflections(self, output: ExtractReflectionsOutput) -> None:
        """The widest scope first: a lower one holds only what no higher one says."""
        scopes: tuple[tuple[Scope, Sequence[ReflectionDraft]], ...] = (
            ("agent", output.agent),
            ("group", output.group),
            ("user", output.user),
            ("session", output.session),
        )
        for scope, drafts in scopes:
            for draft in drafts:
                self._add_reflection(scope, draft)

    def add_observations(self, output: ExtractObservationsOutput) -> None:
        """Reflections of a single call; they stand for facts, too, and may be longer. The widest scope first."""
        for scope in _WIDEST_FIRST:
            for draft in output.observations:
                if draft.scope == scope:
                    self._add_reflection(scope, draft, max_words=MAX_OBSERVATION_WORDS)

    def add_episode(self, text: str, *, private: bool) -> None:
        """At most one; in a group it is the group's where the gate of `policy.sharing` lets it pass."""
        if not text.strip():
            return
        told = self.drafts.take(check_text(text, kind="episode"), ())
        if told is None:
            return
        key = self._episode_key(told, private or any(memory.private for memory in self.memories.values()))
        self._keep(self._memory("episode", key, told, self.places.batch[-1:], "event"))

    def _add_reflection(self, scope: Scope, draft: ReflectionDraft, max_words: int | None = None) -> None:
        sources = cited(self.places.batch, draft.messages)
        owner = owner_of(sources, self.places.identity)
        is_told = scope == "session" or bool(own_words(sources))
        problem = unfounded(sources, is_told=is_told, has_owner=scope != "user" or owner is not None)
        told = self.drafts.take(check_text(draft.content, kind="reflection", max_words=max_words), sources, problem)
        if told is None:
            return
        key = self._reflection_key(scope, draft.model_copy(update={"content": told}), sources, owner)
        memory = self._memory("reflection", key, told, sources, self.categories.stored_as(draft.category))
        if known := [one for one in self.known if told.casefold().rstrip(".") in one.content.casefold()]:
            for one in known:
                self.repeats += repeats(memory, [(one.id, one.is_stored)], one.scope_key)
            return
        self.known.append(Known.of(memory))
        self._keep(replace(memory, importance=min(5, max(1, draft.importance)), private=draft.private))

    def _reflection_key(
        self, scope: Scope, draft: ReflectionDraft, sources: Sequence[Message], owner: str | None
    ) -> str:
        session_key = scope_key("session", session_of(self.places.identity))
        own_key = scope_key("user", owner) if owner else session_key
        if scope == "session":
            return session_key
        if scope == "user":
            return own_key
        wanted = Draft(
            scope=scope,
            text=draft.content,
            category=draft.category,
            importance=draft.importance,
            private=draft.private,
            provenance="asserted",
        )
        return self.places.key(wanted, sources, fallback=own_key)

    def _episode_key(self, text: str, private: bool) -> str:
        who = speakers(self.places.batch)
        if len(who) == 1:
            return scope_key("user", who[0])
        told = Draft(scope="group", text=text, category="event", importance=5, private=private, provenance="asserted")
        said = [message for message in self.places.batch if message.role == "user"]
        return self.places.key(told, said, fallback=scope_key("session", session_of(self.places.identity)))

    def _memory(self, kind: Kind, key: str, text: str, sources: Sequence[Message], category: str) -> NewMemory:
        subject = display_name(split_scope_key(key)[1])
        return NewMemory(
            id=uuid4(),
            kind=kind,
            scope_key=key,
            category=category,
            content=text,
            search_text=search_text(sources[-1].said_at, subject, text),
            subject=subject,
            provenance="inferred",
            valid_from=sources[-1].said_at,
            source_session_id=self.places.identity.session_id,
            source_message_ids=tuple(message.id for message in sources),
        )

    def _keep(self, memory: NewMemory) -> None:
        self.memories.setdefault((memory.scope_key, memory.content), memory)
