"""Where a text may live. A model's word on a wide scope counts only through the gate of `policy.sharing`."""

from collections.abc import Sequence
from dataclasses import dataclass

from mnemic.policy.orders import gives_orders
from mnemic.policy.sharing import is_grounded, is_pasted, may_share
from mnemic.state.identity import Identity, Scope, scope_key
from mnemic.state.records import Message, Provenance


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is known of a text when its place is decided."""

    scope: Scope
    text: str
    category: str
    importance: int
    private: bool
    provenance: Provenance


def place(draft: Draft, sources: Sequence[Message], identity: Identity, *, fallback: str) -> str:
    """The scope key: group or agent where the draft says so and the gate lets it pass, else the fallback.

    A group's memory needs exactly one group in the identity; with several nobody has said which is meant. Nothing is
    shared of a message that orders the memory about.
    """
    wide = _wide_key(draft.scope, identity)
    said = [message.content for message in sources]
    shareable = may_share(
        text=draft.text,
        category=draft.category,
        private=draft.private,
        importance=draft.importance,
        provenance=draft.provenance,
        from_user_words=bool(sources) and all(message.role == "user" for message in sources),
        from_pasted_text=any(map(is_pasted, said)),
    ) and is_grounded(draft.text, [*said, *identity.group_ids, *(message.author for message in sources)])
    return wide if wide and shareable and not any(map(gives_orders, said)) else fallback


def _wide_key(scope: Scope, identity: Identity) -> str | None:
    if scope == "agent":
        return scope_key("agent", identity.agent_id)
    if scope == "group" and len(identity.group_ids) == 1:
        return scope_key("group", identity.group_ids[0])
    return None
