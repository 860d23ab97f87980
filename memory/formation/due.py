"""Consolidations that become due by a formation."""

import logging
from collections.abc import Set
from typing import cast

from mnemic.memory.runtime.graph import AnyGraph
from mnemic.memory.runtime.identity import acting_for
from mnemic.state.errors import MnemicError
from mnemic.state.graphs import ConsolidationOutput
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import memories, scopes
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")


async def due_scope_keys(tx: ScopedTransaction, settings: Settings, personal: Set[str]) -> list[str]:
    """Return the scope keys with enough unabsorbed reflections, or with texts that rest on stale facts.

    Args:
        tx: the transaction of a formation's operation.
        settings: settings of the agent.
        personal: categories that are never shared.
    """
    unabsorbed = await memories.count_unabsorbed(tx)
    stale: set[str] = set()
    for row in await memories.find_stale(tx, tx.scope_keys, personal):
        stale.add(row.scope_key)
    if not unabsorbed and not stale:
        return []
    by_key = await scopes.scope_settings(tx)
    due: list[str] = []
    for key in sorted(unabsorbed.keys() | stale):
        scope = by_key.get(key) or ScopeSettings(scope_key=key)
        threshold = scope.threshold or settings.of_scope(split_scope_key(key)[0], "threshold")
        if scope.is_active and (key in stale or unabsorbed[key] >= threshold):
            due.append(key)
    return due


async def consolidate_due(graph: AnyGraph, identity: Identity, key: str) -> ConsolidationOutput:
    """Consolidate a scope key after a formation, and return the result; an error leaves its reflections waiting.

    After a success it runs again, since another formation may have found this run busy and left its reflections.
    """
    identity = acting_for(identity, key)
    result = latest = await _consolidate(graph, identity, key)
    while latest["outcome"] == "saved":
        latest = await _consolidate(graph, identity, key)
        if latest["outcome"] == "saved":
            result = {**latest, "absorbed": result["absorbed"] + latest["absorbed"]}
    return result


async def _consolidate(graph: AnyGraph, identity: Identity, key: str) -> ConsolidationOutput:
    try:
        return cast(ConsolidationOutput, await graph.ainvoke({"scope_key": key}, context=identity))
    except MnemicError as error:
        _LOG.warning("a consolidation failed, its reflections wait: %s", error)
        return {"scope_key": key, "outcome": "failed", "absorbed": 0, "kept_share": 1.0}
