"""Formation's first node: reads the inbox and decides whether there is anything to do."""

from langgraph.runtime import Runtime

from mnemic.nodes.lines import session_of
from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import FormationNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import to_plain
from mnemic.policy.tokens import weighted_tokens
from mnemic.policy.triggers import formation_reason
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import Message
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
        if reason is None:
            return {**_nothing_yet(), "reason": None, "formed": 0, "pending": box.pending}
        return {
            **_nothing_yet(),
            "reason": reason,
            "formed": len(box.messages),
            "pending": box.pending - len(box.messages),
            "overrides": overrides,
            "guidance": "\n".join(part.extraction_guidance for part in guided.values() if part.extraction_guidance),
            "names": {key: part.name for key, part in guided.items() if part.name},
            "batch": to_plain(Message, box.messages),
        }

    return gate


def _nothing_yet() -> FormationState:
    """What a run begins with: on a server's thread the channels still hold the last run's figures."""
    return {"stored": {}, "superseded": 0, "repeated": 0, "checks": {}, "consolidations": []}
