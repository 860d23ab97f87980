"""Consolidation: a snapshot of what waits in one scope key."""

from langgraph.runtime import Runtime

from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import ConsolidationNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import to_plain
from mnemic.policy.names import display_name
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import ConsolidationState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Memory, ScopeSettings
from mnemic.storage import memories, scopes


def collect(provide: Provider) -> ConsolidationNode:
    """Reads the living consolidation and the unabsorbed reflections, but what is protected stays as it is."""

    async def collect(state: ConsolidationState, runtime: Runtime[Identity]) -> ConsolidationState:
        resources = await provide()
        identity = identity_of(runtime)
        key = state.get("scope_key", "")
        scope, owner = split_scope_key(key)
        if key not in identity.scope_keys:
            raise InvalidInputError("the scope key to consolidate is none of this identity's")
        async with resources.database.scoped(identity) as scoped:
            part = await memories.standing(scoped)
            own = (await scopes.scope_settings(scoped)).get(key) or ScopeSettings(scope_key=key)
        settings = resources.settings.overridden(part.overrides)
        standing = next((scope for scope in part.scopes if scope.scope_key == key), None)
        reflections = tuple(memory for memory in standing.reflections if not memory.protected) if standing else ()
        current = standing.consolidation if standing else None
        needed = 1 if state.get("force") else own.threshold or settings.threshold(scope)
        if len(reflections) < needed or not own.is_active or (current and current.protected):
            return {"scope_key": key, "outcome": "not_due", "absorbed": 0, "kept_share": 1.0, "reflections": []}
        return {
            "owner": own.name or display_name(owner),
            "current": to_plain(Memory, [current] if current else []),
            "reflections": to_plain(Memory, reflections),
            "word_limit": own.word_limit or settings.word_limit(scope),
            "guidance": own.consolidation_guidance or "",
        }

    return collect
