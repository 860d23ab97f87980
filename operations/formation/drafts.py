"""The drafts of an answer: counted, checked, accounted for, and given the scope that each may have.

A model's word on a wide scope counts only through the gate of `policy.formation.sharing`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

from mnemic.operations.messages.transcript import own_words
from mnemic.policy.formation.sharing import (
    Draft,
    content_tokens,
    gives_orders,
    has_foreign_claims,
    is_grounded,
    may_share,
)
from mnemic.policy.text.words import folded_words
from mnemic.policy.text.writing import Verdict
from mnemic.prompts.loader import Prompt
from mnemic.prompts.repair import NOTHING, Flaw, unusable_drafts
from mnemic.state.formation import Account
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, Scope, scope_key
from mnemic.state.records import Message, NewMemory

#: As many words of the instructions in a row nobody writes by chance.
_COPIED_WORDS = 5


@dataclass
class Drafts:
    """The drafts of one answer."""

    #: What the model was told.
    prompt: Prompt
    #: Messages that it was shown.
    shown: int
    checks: Counter[str] = field(default_factory=lambda: Counter(first_pass=0, trimmed=0, refused=0))
    #: Drafts that were refused, by what was wrong with them.
    refused: Counter[str] = field(default_factory=Counter)
    _cited: set[UUID] = field(default_factory=set)
    _open: set[UUID] = field(default_factory=set)

    def take(self, verdict: Verdict, sources: Sequence[Message], unfounded: str | None = None) -> str | None:
        """Counts a draft; its text, or None where it is refused.

        Args:
            verdict: of the text.
            sources: the messages it cites.
            unfounded: why it may not rest on them.
        """
        ids = {message.id for message in sources}
        problem = unfounded or verdict.problem or self._copied(verdict.text or "")
        if problem or verdict.text is None:
            self.checks["refused"] += 1
            self.refused[problem or "empty"] += 1
            self._open |= ids
            return None
        self.checks["trimmed" if verdict.trimmed else "first_pass"] += 1
        self._cited |= ids
        return verdict.text

    def flaw(self, nothing_else: bool) -> Flaw | None:
        """What makes the answer useless: a draft without a source, most of them refused, nothing and no word of it."""
        drafts = self.checks.total()
        if not drafts and not nothing_else:
            return NOTHING
        if not self.refused["no_source"] and 2 * self.refused.total() <= drafts:
            return None
        kind = f"{self.refused.total()} of {drafts} drafts cannot be used ({refusal_summary(self.refused)})"
        return Flaw(kind=kind, advice=unusable_drafts(self.refused, drafts, self.shown))

    def figures(self) -> FormationState:
        """What is counted; no refusals are left out, for an empty count begins anew."""
        checks: FormationState = {"checks": dict(self.checks)}
        return {**checks, "refused": dict(self.refused)} if self.refused else checks

    def account(self, before: Account, *, nothing_else: bool) -> Account:
        """What this answer accounts for, with those before it.

        A message that a refused draft rests on holds something, whatever the model says of the rest.
        """
        return Account(
            cited=before.cited | self._cited,
            open=before.open | self._open,
            nothing_else=nothing_else and before.nothing_else is not False,
        )

    def _copied(self, text: str) -> str | None:
        words = folded_words(text)
        if len(words) < _COPIED_WORDS:
            return None
        instructions = " ".join(folded_words(self.prompt.system))
        return "copied" if f" {' '.join(words)} " in f" {instructions} " else None


def refusal_summary(refused: Counter[str]) -> str:
    """`2 first_person, 1 too_long`."""
    return ", ".join(f"{count} {problem}" for problem, count in sorted(refused.items()))


def crowded_out(account: Account, drafted: Iterable[NewMemory], kept: Iterable[NewMemory]) -> Account:
    """The account once some of the drafts had to give way: what only they rested on is open again."""
    lost = _sources(drafted) - _sources(kept)
    return replace(account, cited=account.cited - lost, open=account.open | lost)


def accounted(batch: Iterable[Message], account: Account) -> set[UUID]:
    """The messages that something stored or known rests on, or of which every step said that they hold nothing."""
    return {
        message.id
        for message in batch
        if message.id in account.cited or (account.nothing_else and message.id not in account.open)
    }


def _sources(memories: Iterable[NewMemory]) -> set[UUID]:
    """What they cite; an episode cites nothing."""
    return {source for memory in memories if memory.kind != "episode" for source in memory.source_message_ids}


@dataclass(frozen=True)
class ScopeResolver:
    """The scope keys for what a batch brings."""

    batch: Sequence[Message]
    identity: Identity
    #: The display name of the run's one group.
    group: str | None
    #: Whether who writes the texts has read more than the batch: what it recalled, its instructions, summaries. Then
    #: only what users said is shared, and not all that nobody else in the batch said.
    has_read_more: bool = False

    def resolve(self, draft: Draft, sources: Sequence[Message], *, fallback: str) -> str:
        """The scope key: group or agent where the draft says so and the gate lets it pass, else the fallback.

        A group's memory needs exactly one group in the identity; with several nobody has said which is meant. Nothing
        is shared of a batch in which anybody orders the memory about: the model has read it, whatever it cites.
        """
        wide = self._wide_key(draft.scope)
        if wide is None or self._is_ordered or not may_share(draft, sources):
            return fallback
        contents = [message.content for message in sources]
        known = [*contents, *self.identity.group_ids, self.group or "", *(message.author for message in sources)]
        if not is_grounded(draft.text, known):
            return fallback
        own, claimed = content_tokens("\n".join(known)), content_tokens(draft.text)
        is_foreign = bool(claimed - own) if self.has_read_more else has_foreign_claims(claimed, own, self._foreign)
        return fallback if is_foreign else wide

    @cached_property
    def _is_ordered(self) -> bool:
        return any(gives_orders(text) for message in self.batch for text in (message.content, message.author))

    @cached_property
    def _foreign(self) -> frozenset[str]:
        return foreign_tokens(self.batch)

    def _wide_key(self, scope: Scope) -> str | None:
        if scope == "agent":
            return scope_key("agent", self.identity.agent_id)
        if scope == "group" and len(self.identity.group_ids) == 1:
            return scope_key("group", self.identity.group_ids[0])
        return None


def foreign_tokens(batch: Iterable[Message]) -> frozenset[str]:
    """What the assistant, tools and pasted documents tell, as `content_tokens` has it."""
    batch = list(batch)
    own = {message.id for message in own_words(batch)}
    return content_tokens("\n".join(message.content for message in batch if message.id not in own))
