"""Rules on memories that are raised to a group or to all users: typed sentences decide, and no model."""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from mnemic.memory.text.proof import Proof, find_quotations
from mnemic.memory.text.sharing import ShareRequest, is_typed, obstacle_to_sharing
from mnemic.state.identity import Scope, split_scope_key
from mnemic.state.records import Memory, Message


class Claim(NamedTuple):
    """A memory with the messages of users that it rests on, also through merges."""

    memory: Memory
    messages: Sequence[Message]


class Evidence(NamedTuple):
    """A message with a typed sentence that a text agrees with."""

    message: Message
    said: str
    #: Scope key of the memory that rests on the message.
    scope_key: str

    @property
    def author(self) -> str:
        """The user who typed it."""
        return self.message.user_id or ""


def group_evidence(claim: Claim, group: str, session_groups: Mapping[str, str], personal: Set[str]) -> list[Evidence]:
    """Return the sentences that prove that a user's memory may be raised to a group; none if it may not.

    Args:
        claim: the memory of the user.
        group: id of the group.
        session_groups: the group of each session in which every run had exactly one.
        personal: categories that are a person's own.
    """
    owner = split_scope_key(claim.memory.scope_key)[1]
    typed: list[Message] = []
    for message in claim.messages:
        if session_groups.get(message.session_id) == group and is_typed(message, {owner}):
            typed.append(message)
    return _permitted(claim, "group", find_quotations(claim.memory.content, typed), personal)


def agent_evidence(text: str, claim: Claim, personal: Set[str]) -> list[Evidence]:
    """Return the sentences of a claim that a text agrees with; none if the claim may not be raised."""
    typed = [message for message in claim.messages if is_typed(message, {message.user_id})]
    return _permitted(claim, "agent", find_quotations(text, typed), personal)


def independent_pair(
    first_evidence: Sequence[Evidence], second_evidence: Sequence[Evidence], strangers: Set[tuple[str, str]]
) -> tuple[Evidence, Evidence] | None:
    """Return evidence of two groups by different authors, or of two strangers; None without such.

    Args:
        first_evidence: evidence for the memory.
        second_evidence: evidence for another memory.
        strangers: pairs of authors, of the first and of the second, without a common group or session.
    """
    for first in first_evidence:
        for second in second_evidence:
            if first.author == second.author:
                continue
            if _are_of_two_groups(first, second) or (first.author, second.author) in strangers:
                return first, second
    return None


def _permitted(claim: Claim, scope: Scope, proofs: Sequence[Proof], personal: Set[str]) -> list[Evidence]:
    """Return the proofs as evidence; none if they do not allow the memory in that scope."""
    memory = claim.memory
    draft = ShareRequest(scope, memory.content, memory.category, memory.private)
    messages: list[Message] = []
    authors: set[str | None] = set()
    evidence: list[Evidence] = []
    for proof in proofs:
        messages.append(proof.message)
        authors.add(proof.author)
        evidence.append(Evidence(proof.message, proof.said, memory.scope_key))
    if obstacle_to_sharing(draft, messages, authors, personal):
        return []
    return evidence


def _are_of_two_groups(first: Evidence, second: Evidence) -> bool:
    if first.scope_key == second.scope_key:
        return False
    return split_scope_key(first.scope_key)[0] == split_scope_key(second.scope_key)[0] == "group"
