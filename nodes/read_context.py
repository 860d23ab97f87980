"""Recall: the standing part and, where it is wanted, the one search, in one transaction."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import RecallNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import to_plain
from mnemic.policy.heuristics import NAMES_NEEDED, unknown_names
from mnemic.state.graphs import RecallState
from mnemic.state.identity import Identity
from mnemic.state.records import Found, Standing
from mnemic.storage import memories
from mnemic.storage.search import search


def read_context(provide: Provider) -> RecallNode:
    """BEGIN, scope, standing part, at most one search, COMMIT.

    The question is embedded before the transaction begins, so that no connection waits for a model; that is done
    only where a search will or may follow.
    """

    async def read_context(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        resources = await provide()
        identity = identity_of(runtime)
        question, reason, names = state["question"], state["searched"], state["names"]
        may_search = reason is not None or len(names) >= NAMES_NEEDED
        vector = (await resources.embedder.embed([question]))[0] if may_search else None
        async with resources.database.scoped(identity) as scoped:
            part = await memories.standing(scoped)
            settings = resources.settings.overridden(part.overrides)
            standing = part.scopes if settings.always_in_context else ()
            if may_search and reason is None and _are_unknown(names, standing):
                reason = "names"
            found: Sequence[Found] = ()
            if reason is not None and settings.rag:
                found = await search(
                    scoped,
                    question,
                    vector,
                    model=resources.embedder.name,
                    settings=settings,
                    most=settings.recall_limit,
                )
        return {
            "searched": reason if settings.rag else None,
            "budget": state.get("budget_tokens") or settings.recall_budget_tokens,
            "standing": to_plain(Standing, standing),
            "found": to_plain(Found, found),
        }

    return read_context


def _are_unknown(names: Sequence[str], standing: Sequence[Standing]) -> bool:
    text = "\n".join(part.text for part in standing)
    return len(unknown_names(tuple(names), text)) >= NAMES_NEEDED
