"""A draft on its way to be a memory, and the scope it may have.

A model's word on a wide scope counts only through the gate of `policy.formation.sharing`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from mnemic.operations.messages.transcript import own_words
from mnemic.policy.formation.sharing import (
    Draft,
    content_tokens,
    gives_orders,
    has_foreign_claims,
    is_grounded,
    may_share,
)
from mnemic.state.identity import Identity, Scope, scope_key
from mnemic.state.records import Message


def refusal_summary(refused: Counter[str]) -> str:
    """`2 first_person, 1 too_long`."""
    return ", ".join(f"{count} {problem}" for problem, count in sorted(refused.items()))


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
