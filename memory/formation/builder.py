"""Turns the drafts that a step answered into memories: checked, placed, and nothing that is known already. Pure.

A model's word on a wide scope counts only through the rules of `policy.formation.sharing` and `policy.formation.proof`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final
from uuid import UUID

from mnemic.memory.formation.grounding import (
    Attachments,
    has_unknown_number,
    is_taken_up,
    joined_digits,
)
from mnemic.memory.formation.selection import crowded_out
from mnemic.memory.runtime.categories import Categories
from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.scoping import ScopeResolver
from mnemic.memory.runtime.transcript import speakers, typed_messages
from mnemic.memory.text.proof import Proof, confidential_spans
from mnemic.memory.text.shape import clean_text, clip_text
from mnemic.memory.text.sharing import Draft
from mnemic.memory.text.words import folded_words
from mnemic.memory.text.writing import Verdict, check_text
from mnemic.prompts.extraction import (
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
from mnemic.state.graphs import FormationState, StepUsage
from mnemic.state.identity import Scope, scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory, Message, NewMemory, attachment_id

#: Categories of a fact that cites the assistant or a tool alone: a booking counts once it is made. All others need a
#: user's own message.
_OPEN_TO_OTHERS: Final = frozenset({"event", "knowledge", "projects"})
MAX_SUBJECT_CHARS: Final = 100
#: As many words of the instructions in a row nobody writes by chance.
_COPIED_WORDS: Final = 5
#: An observation says what a fact and a reflection would say together.
MAX_OBSERVATION_WORDS: Final = 50
#: Refusal of a draft whose content comes from an attachment.
_FROM_ATTACHMENT: Final = "from_attachment"
_WIDEST_FIRST: Final[tuple[Scope, ...]] = ("agent", "group", "user", "session")


@dataclass
class MemoryBuilder:
    """The memories of one answer, and what became of its drafts."""

    resolver: ScopeResolver
    categories: Categories
    #: What the model was told.
    prompt: Prompt
    #: What stands in context, or is about to be stored as a fact; no reflection says it again.
    known: list[Memory | NewMemory]
    #: Whether the model says that the other messages hold nothing.
    nothing_else: bool
    #: Whether anything was said in confidence.
    private: bool
    #: Everything that the model was shown.
    shown: str
    #: What the answer took.
    spent: list[StepUsage] = field(default_factory=list)
    memories: dict[tuple[str, str], NewMemory] = field(default_factory=dict)
    #: What was dropped because it is known.
    repeats: list[DuplicateDraft] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=lambda: Counter(first_pass=0, trimmed=0, refused=0))
    #: Drafts that were refused, by what was wrong with them.
    refused: Counter[str] = field(default_factory=Counter)
    #: Typed sentences that private drafts rest on.
    _confidential: set[str] = field(default_factory=set)
    _cited: set[UUID] = field(default_factory=set)
    _open: set[UUID] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Take up the sentences of private facts that were formed from the same messages."""
        by_id = {message.id: message for message in self.resolver.batch}
        for memory in self.known:
            if isinstance(memory, NewMemory) and memory.private:
                sources = [by_id[place] for place in memory.source_message_ids if place in by_id]
                self._confidential |= confidential_spans(memory.content, typed_messages(sources))

    def add_facts(self, output: ExtractFactsOutput) -> None:
        """Facts, each its owner's, or of a wider scope."""
        self.private = self.private or any(draft.private for draft in output.facts)
        self._note_confidential(output.facts)
        for draft in output.facts:
            if fact := self._made(draft, draft.scope):
                self._keep(fact)

    def add_reflections(self, output: ExtractReflectionsOutput) -> None:
        """The widest scope first: a lower one holds only what no higher one says. Then the episode."""
        for scope in _WIDEST_FIRST:
            self._note_confidential(getattr(output, scope))
        for scope in _WIDEST_FIRST:
            for draft in getattr(output, scope):
                self._add_reflection(scope, draft)
        if output.episode.strip():
            self._add_episode(output.episode)

    def add_observations(self, output: ExtractObservationsOutput) -> None:
        """Reflections of a single call; they stand for facts, too, and may be longer. The widest scope first."""
        self._note_confidential(output.observations)
        for draft in sorted(output.observations, key=lambda draft: _WIDEST_FIRST.index(draft.scope)):
            self._add_reflection(draft.scope, draft)

    def refuse_unreadable(self, count: int) -> None:
        """Count drafts that could not be read; the messages they rest on are unknown, so that none is without facts."""
        if count:
            self.checks["refused"] += count
            self.refused["unreadable"] += count
            self.nothing_else = False

    def flaw(self) -> ValidationIssue | None:
        """Return why the answer needs a repair: a draft without a source, most drafts refused, or an empty answer."""
        drafts = self.checks.total()
        if not drafts and not self.nothing_else:
            return NOTHING
        # a model that draws from an attachment as well gives a useful answer
        attached = self.refused[_FROM_ATTACHMENT]
        if not self.refused["no_source"] and 2 * (self.refused.total() - attached) <= drafts - attached:
            return None
        kind = f"{self.refused.total()} of {drafts} drafts cannot be used ({refusal_summary(self.refused)})"
        advice = unusable_drafts(self.refused, drafts, len(self.resolver.batch))
        return ValidationIssue(kind, advice, is_partial=self.refused.total() < drafts)

    def update(self, state: FormationState, kept: Sequence[NewMemory]) -> FormationState:
        """What the channels tell of the drafts, of which these are kept: what they account for, with those before.

        A message that a refused draft rests on holds something, whatever the model says of the rest. Drafts beyond the
        limit of a run are counted with the refused ones. No refusals are left out, for an empty count begins anew.
        """
        refused = self.refused + Counter(over_limit=len(self.memories) - len(kept))
        before = state["account"]
        account = Coverage(
            cited=before.cited | self._cited,
            open=before.open | self._open,
            nothing_else=self.nothing_else and before.nothing_else is not False,
        )
        update: FormationState = {
            "checks": dict(self.checks),
            "repeats": [*state["repeats"], *self.repeats],
            "account": crowded_out(account, self.memories.values(), kept),
            **({"spent": self.spent} if self.spent else {}),
        }
        return {**update, "refused": dict(refused)} if refused else update

    def _add_reflection(self, scope: Scope, draft: ReflectionDraft) -> None:
        memory = self._made(draft, scope)
        if memory is None:
            return
        wording = memory.content.casefold().rstrip(".")
        known = [text for text in self.known if wording in text.content.casefold()]
        self.repeats += [
            DuplicateDraft(new=memory, known_id=text.id, scope_key=text.scope_key, is_stored=isinstance(text, Memory))
            for text in known
        ]
        if not known:
            self.known.append(memory)
            self._keep(memory)

    def _add_episode(self, text: str) -> None:
        """Keep at most one; of several people it is the session's, for no typed sentence proves a summary."""
        batch = self.resolver.batch
        said = [message.content for message in batch if message.role != "attachment"]
        problem = _FROM_ATTACHMENT if Attachments.of(batch, said).supply(text, ()) else None
        content = self._take(check_text(text, kind="episode"), (), problem)
        if content is None:
            return
        who = speakers(batch)
        key = self._own_key(who[0] if len(who) == 1 else None)
        self._keep(self._memory("episode", key, content, batch[-1:]))

    def _note_confidential(self, drafts: Sequence[FactDraft | ReflectionDraft]) -> None:
        """Note the sentences of private drafts before any draft is made: nothing that is shared may quote them."""
        for draft in drafts:
            if draft.private:
                self._confidential |= confidential_spans(draft.content, typed_messages(self._sources(draft)))

    def _sources(self, draft: FactDraft | ReflectionDraft) -> list[Message]:
        batch = self.resolver.batch
        return [message for number, message in enumerate(batch, start=1) if number in draft.messages]

    def _proof(self, draft: Draft, sources: Sequence[Message], owner: str | None) -> Proof | None:
        """Return the typed sentence of a draft; one of the user's rests on the user's own words alone."""
        if not self.resolver.identity.group_ids and draft.scope != "agent":
            return None
        if draft.scope == "user":
            sources = [message for message in sources if message.user_id == owner]
        return self.resolver.prove(draft, sources, self._confidential)

    def _made(self, draft: FactDraft | ReflectionDraft, scope: Scope) -> NewMemory | None:
        """The draft as a memory, in this scope where it may have it, else its owner's; None where it is refused."""
        fact = draft if isinstance(draft, FactDraft) else None
        sources = self._sources(draft)
        owner = next((message.user_id for message in sources if message.user_id), self.resolver.identity.user_id)
        if scope == "session":
            owner = None
        # without an owner it is the session's, unless it is a fact or about its user
        own_key = self._own_key(owner) if owner or not (fact or scope == "user") else None
        is_open = draft.category in _OPEN_TO_OTHERS if fact else scope == "session"
        problem = self._unfounded(draft.content, sources, is_open=is_open)
        max_words = MAX_OBSERVATION_WORDS if isinstance(draft, ObservationDraft) else None
        verdict = check_text(draft.content, kind="fact" if fact else "reflection", max_words=max_words)
        text = self._take(verdict, sources, problem or (None if own_key else "no_owner"))
        if text is None or own_key is None:
            return None
        wanted = Draft(scope, text, draft.category, draft.private, group=draft.group)
        subject = ""
        if fact:
            subject = clip_text(" ".join(clean_text(fact.subject).split()), MAX_SUBJECT_CHARS) or "?"
        proof = self._proof(wanted, sources, owner)
        place = self.resolver.resolve(wanted, sources, proof and proof.said, fallback=own_key)
        is_own = place.scope_key == own_key
        return replace(
            self._memory("fact" if fact else "reflection", place.scope_key, text, sources, subject),
            subject_user_id=owner if fact and is_own else self._named(subject),
            category=self.categories.stored_as(draft.category),
            importance=min(5, max(1, draft.importance)),
            private=draft.private,
            tags=place.tags,
            actor_id=owner if is_own or proof is None else proof.author,
            said=proof and proof.said,
            provenance=fact.provenance if fact else "inferred",
        )

    def _unfounded(self, text: str, sources: Sequence[Message], *, is_open: bool) -> str | None:
        """Return why a draft may not rest on the messages that it cites, or None."""
        batch = self.resolver.batch
        if not sources:
            return "no_source"
        if self._attachments.supply(text, sources):
            return _FROM_ATTACHMENT
        if not is_open and not typed_messages(sources):
            return "not_own_words"
        known = [*(memory.content for memory in self.known), *self.resolver.groups]
        if not is_taken_up(text, sources, batch, known):
            return "not_own_words"
        return "not_in_conversation" if has_unknown_number(text, self._shown_digits) else None

    @cached_property
    def _attachments(self) -> Attachments:
        typed = [message.typed_text for message in self.resolver.batch]
        return Attachments.of(self.resolver.batch, [*typed, *self.resolver.groups])

    @cached_property
    def _shown_digits(self) -> str:
        texts = [message.content for message in self.resolver.batch] + [memory.content for memory in self.known]
        return joined_digits("\n".join([self.shown, *texts]))

    def _take(self, verdict: Verdict, sources: Sequence[Message], unfounded: str | None = None) -> str | None:
        """Counts a draft; its text, or None where it is refused.

        Args:
            verdict: of the text.
            sources: the messages it cites.
            unfounded: why it may not rest on them.
        """
        ids = {message.id for message in sources}
        words, instructions = folded_words(verdict.text or ""), " ".join(folded_words(self.prompt.system))
        is_copied = len(words) >= _COPIED_WORDS and f" {' '.join(words)} " in f" {instructions} "
        problem = unfounded or verdict.problem or ("copied" if is_copied else None)
        if problem or verdict.text is None:
            self.checks["refused"] += 1
            self.refused[problem or "empty"] += 1
            self._open |= ids
            return None
        self.checks["trimmed" if verdict.trimmed else "first_pass"] += 1
        self._cited |= ids
        return verdict.text

    def _named(self, subject: str) -> str | None:
        """The user whom a shared fact is about, if one of those who speak."""
        batch = self.resolver.batch
        return next((message.user_id for message in batch if message.user_id and message.author == subject), None)

    def _own_key(self, user: str | None) -> str:
        """The user's, or the session's."""
        return scope_key("user", user) if user else scope_key("session", session_of(self.resolver.identity))

    def _memory(self, kind: Kind, key: str, text: str, sources: Sequence[Message], subject: str = "") -> NewMemory:
        return replace(
            new_memory(kind, "event", key, text, sources[-1].said_at, subject),
            provenance="inferred",
            source_session_id=self.resolver.identity.session_id,
            source_message_ids=tuple(self._with_attachments(sources)),
        )

    def _with_attachments(self, sources: Sequence[Message]) -> list[UUID]:
        """Return the ids of sources and of their attachments, so that an erasure of the memory reaches both."""
        attachments = {message.id for message in self.resolver.batch if message.role == "attachment"}
        ids = []
        for message in sources:
            ids.append(message.id)
            if attachment_id(message.id) in attachments:
                ids.append(attachment_id(message.id))
        return list(dict.fromkeys(ids))

    def _keep(self, memory: NewMemory) -> None:
        self.memories.setdefault((memory.scope_key, memory.content), memory)
