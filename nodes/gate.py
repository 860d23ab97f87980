"""Formation's first node: reads the inbox and decides whether there is anything to do."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from langgraph.runtime import Runtime

from mnemic.nodes.lines import session_of, speakers
from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import FormationNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import to_plain
from mnemic.policy.tokens import count_tokens, weighted_tokens
from mnemic.policy.triggers import formation_reason
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import Message, ScopeSettings
from mnemic.storage import inbox, scopes


def gate(provide: Provider) -> FormationNode:
    """At least 4 messages, and 45 of them, 1,000 weighted tokens, a cold session, or a caller who insists."""

    async def gate(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        session_id = session_of(identity)
        async with resources.database.scoped(identity) as scoped:
            overrides = await scopes.agent_settings(scoped)
            settings = resources.settings.overridden(overrides)
            box = await inbox.read_inbox(scoped, session_id, most=settings.formation_batch_messages)
            guided = await scopes.scope_settings(scoped)
        reason = formation_reason(
            messages=box.pending,
            tokens=sum(weighted_tokens(message.role, message.content) for message in box.messages),
            idle=box.idle,
            forced=state.get("force", False),
            settings=settings,
        )
        batch = _fitting(box.messages, settings.formation_batch_tokens)
        if reason is None:
            return {**_nothing_yet(), "reason": None, "formed": 0, "pending": box.pending}
        return {
            **_nothing_yet(),
            "reason": reason,
            "formed": len(batch),
            "pending": box.pending - len(batch),
            "overrides": overrides,
            "guidance": _guidance(guided.values(), is_own={*speakers(batch)} <= {identity.user_id}),
            "names": {key: part.name for key, part in guided.items() if part.name},
            "batch": to_plain(Message, batch),
        }

    return gate


def _fitting(messages: Sequence[Message], budget: int) -> list[Message]:
    """The oldest messages that fit into one prompt, and one at least."""
    spent = list(accumulate(count_tokens(message.content) for message in messages))
    return [message for place, message in enumerate(messages) if place == 0 or spent[place] <= budget]


def _guidance(scopes: Iterable[ScopeSettings], *, is_own: bool) -> str:
    """What the agent's, the groups' and, among themselves, the user's own scope tell the extractor."""
    shown = (scope for scope in scopes if is_own or not scope.scope_key.startswith("user:"))
    return "\n".join(scope.extraction_guidance for scope in shown if scope.extraction_guidance)


def _nothing_yet() -> FormationState:
    """What a run begins with: on a server's thread the channels still hold the last run's figures."""
    return {"stored": {}, "superseded": 0, "repeated": 0, "checks": {}, "consolidations": []}
