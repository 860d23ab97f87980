"""Scope keys of new memories: the owner's own, or a group's or the agent's if the rules of sharing allow it. Pure."""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from mnemic.memory.text.proof import Proof, find_proof, shared_wording
from mnemic.memory.text.sharing import ShareRequest, is_typed, obstacle_to_sharing
from mnemic.state.formation import NotShared
from mnemic.state.identity import Identity, is_shared, scope_key
from mnemic.state.records import CANDIDATE, Message, NewMemory
from mnemic.state.settings import Settings


class Place(NamedTuple):
    """Scope key of a memory, with the tags and the typed sentence that belong to it there."""

    scope_key: str
    tags: tuple[str, ...] = ()
    #: Typed sentence that the memory rests on, if it is shared.
    said: str | None = None
    #: Reason why it is not the requested scope key.
    not_shared: NotShared | None = None


class ScopeResolver(NamedTuple):
    """Rules that choose the scope key of each draft of a batch."""

    batch: Sequence[Message]
    identity: Identity
    #: Display names of the run's groups, in the order of their ids.
    groups: Sequence[str]
    #: Settings of the agent, with its overrides.
    settings: Settings
    #: Categories that are never shared.
    personal: Set[str]

    def prove(self, draft: ShareRequest, sources: Sequence[Message], confidential: Set[str]) -> Proof | None:
        """Return the sentence that a draft rests on, if a permitted person typed it.

        A draft of user scope is proved for the group, since it may become the group's later.

        Args:
            draft: the text and its scope.
            sources: the messages that the draft cites.
            confidential: sentences that private memories rest on.
        """
        members = self.identity.may_speak_for("agent" if draft.scope == "agent" else "group")
        typed = [message for message in sources if is_typed(message, members)]
        return find_proof(draft.text, typed, self.batch, confidential)

    def resolve(self, draft: ShareRequest, sources: Sequence[Message], said: str | None, *, fallback: str) -> Place:
        """Return the group's or agent's scope key if the draft names it and the rules of sharing allow it.

        A draft of agent scope by a user who does not teach the agent stays with the user as a candidate.

        Args:
            draft: the text and its scope.
            sources: the messages that the draft cites.
            said: typed sentence that the draft rests on, if there is one.
            fallback: scope key of a draft that is not shared.
        """
        if draft.scope not in ("group", "agent"):
            return Place(fallback)
        obstacle = self._obstacle(draft) or obstacle_to_sharing(
            draft, sources, self.identity.may_speak_for(draft.scope), self.personal
        )
        owner = self._owner(draft)
        if obstacle or owner is None or said is None:
            return Place(fallback, not_shared=obstacle or "not_typed")
        if draft.scope == "agent" and not self._teaches:
            return Place(fallback, (CANDIDATE,), not_shared="not_teacher")
        return Place(scope_key(draft.scope, owner), said=said)

    def _obstacle(self, draft: ShareRequest) -> NotShared | None:
        """Return the reason why the settings or the identity forbid the requested scope."""
        if draft.scope == "agent":
            return "settings" if self.settings.share_with_agent == "off" else None
        if not self.settings.share_with_group:
            return "settings"
        return None if self._group(draft.group) else "no_group"

    @property
    def _teaches(self) -> bool:
        return self.identity.teaches_agent or self.settings.share_with_agent == "open"

    def _owner(self, draft: ShareRequest) -> str | None:
        """Return the owner id of the requested scope; None if it is a group that the identity does not have."""
        if draft.scope == "agent":
            return self.identity.agent_id
        return self._group(draft.group)

    def _group(self, number: int) -> str | None:
        """Return the id of a group by its number from 1; an only group needs no number."""
        groups = self.identity.group_ids
        if len(groups) == 1:
            return groups[0]
        if 1 <= number <= len(groups):
            return groups[number - 1]
        return None

    def group_keys(self, fact: NewMemory) -> list[str]:
        """Return the scope keys of the groups that the fact could be shared with."""
        sources = [message for message in self.batch if message.id in fact.source_message_ids]
        draft = ShareRequest("group", fact.content, fact.category, fact.private)
        keys: list[str] = []
        for number in range(1, len(self.identity.group_ids) + 1):
            place = self.resolve(draft._replace(group=number), sources, fact.said, fallback="")
            if place.scope_key:
                keys.append(place.scope_key)
        return keys


def with_shared_wording(memory: NewMemory) -> NewMemory:
    """Return a memory with the text for its readers: of a shared one a proven text or the typed sentence.

    Raises:
        ValueError: if a shared memory has no typed sentence.
    """
    if not is_shared(memory.scope_key):
        return replace(memory, said=None)
    if memory.said is None:
        raise ValueError(f"the shared memory {memory.id} has no typed sentence")
    content, draft = shared_wording(memory.content, memory.said)
    return replace(memory, content=content, draft=draft)
