"""Turns the reflections and observations that a step answered into memories: checked, placed, and nothing known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import uuid4

from mnemic.operations.formation.drafts import Drafts, unfounded
from mnemic.operations.formation.scope_resolver import Draft, ScopeResolver
from mnemic.operations.formation.selection import Known, repeat
from mnemic.operations.messages.transcript import cited, only_speaks, own_words, owner_of, speakers
from mnemic.operations.run.identity import session_of
from mnemic.operations.run.resources import Resources
from mnemic.policy.categories import Categories
from mnemic.policy.text.names import display_name
from mnemic.policy.text.search_text import search_text
from mnemic.policy.text.writing import check_text
from mnemic.prompts.extract_observations import ExtractObservationsOutput
from mnemic.prompts.extract_reflections import ExtractReflectionsOutput, ReflectionDraft, StandingText
from mnemic.state.formation import Repeat
from mnemic.state.identity import Identity, Scope, scope_key, split_scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Message, NewMemory, Standing
from mnemic.storage import memories

#: An observation says what a fact and a reflection would say together.
MAX_OBSERVATION_WORDS = 50
_WIDEST_FIRST: tuple[Scope, ...] = ("agent", "group", "user")


class ExistingContext(NamedTuple):
    """The texts that are in context for the run's identity."""

    #: All of them, to compare with: what is not shown is not stored twice either.
    known: tuple[Known, ...]
    #: Those that the step may see.
    shown: tuple[StandingText, ...]


async def read_existing_context(
    resources: Resources, identity: Identity, batch: Sequence[Message], names: Mapping[str, str]
) -> ExistingContext:
    """What the steps that write for the context see of it, so that they repeat nothing.

    Where others speak than the run's own user, nobody's own memory may colour what is written for them.

    Args:
        names: display names of scope keys, where the host gave one.
    """
    async with resources.database.scoped(identity) as scoped:
        standing = (await memories.standing(scoped)).scopes
    is_own = only_speaks(batch, identity.user_id)
    return ExistingContext(
        known=tuple(Known.of(memory) for part in standing for memory in [*part.texts, *part.facts]),
        shown=tuple(_standing_text(part, names) for part in standing if is_own or part.scope != "user"),
    )


def _standing_text(part: Standing, names: Mapping[str, str]) -> StandingText:
    scope, owner = split_scope_key(part.scope_key)
    return StandingText(scope=scope, name=names.get(part.scope_key) or display_name(owner), text=part.text)


@dataclass
class ReflectionBuilder:
    """Reflections and the episode of one run. Pure."""

    resolver: ScopeResolver
    #: What stands in context, or is about to be stored as a fact.
    known: list[Known]
    categories: Categories
    drafts: Drafts
    memories: dict[tuple[str, str], NewMemory] = field(default_factory=dict)
    #: What was dropped because it is known.
    repeats: list[Repeat] = field(default_factory=list)

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
        """At most one; in a group it is the group's where the gate of `policy.formation.sharing` lets it pass."""
        if not text.strip():
            return
        content = self.drafts.take(check_text(text, kind="episode"), ())
        if content is None:
            return
        key = self._episode_key(content, private or any(memory.private for memory in self.memories.values()))
        self._keep(self._memory("episode", key, content, self.resolver.batch[-1:], "event"))

    def _add_reflection(self, scope: Scope, draft: ReflectionDraft, max_words: int | None = None) -> None:
        sources = cited(self.resolver.batch, draft.messages)
        owner = owner_of(sources, self.resolver.identity)
        is_own_word = scope == "session" or bool(own_words(sources))
        problem = unfounded(sources, is_own_word=is_own_word, has_owner=scope != "user" or owner is not None)
        content = self.drafts.take(check_text(draft.content, kind="reflection", max_words=max_words), sources, problem)
        if content is None:
            return
        key = self._reflection_key(scope, draft.model_copy(update={"content": content}), sources, owner)
        memory = self._memory("reflection", key, content, sources, self.categories.stored_as(draft.category))
        wording = content.casefold().rstrip(".")
        if known := [text for text in self.known if wording in text.content.casefold()]:
            self.repeats += [repeat(memory, text.id, is_stored=text.is_stored, key=text.scope_key) for text in known]
            return
        self.known.append(Known.of(memory))
        self._keep(replace(memory, importance=min(5, max(1, draft.importance)), private=draft.private))

    def _reflection_key(
        self, scope: Scope, draft: ReflectionDraft, sources: Sequence[Message], owner: str | None
    ) -> str:
        session_key = scope_key("session", session_of(self.resolver.identity))
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
        return self.resolver.resolve(wanted, sources, fallback=own_key)

    def _episode_key(self, text: str, private: bool) -> str:
        who = speakers(self.resolver.batch)
        if len(who) == 1:
            return scope_key("user", who[0])
        wanted = Draft(scope="group", text=text, category="event", importance=5, private=private, provenance="asserted")
        sources = [message for message in self.resolver.batch if message.role == "user"]
        return self.resolver.resolve(wanted, sources, fallback=scope_key("session", session_of(self.resolver.identity)))

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
            source_session_id=self.resolver.identity.session_id,
            source_message_ids=tuple(message.id for message in sources),
        )

    def _keep(self, memory: NewMemory) -> None:
        self.memories.setdefault((memory.scope_key, memory.content), memory)
