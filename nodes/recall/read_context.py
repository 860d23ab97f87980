"""Recall: the standing part and, where it is wanted, the one search, in one transaction."""

import asyncio
import logging
from collections.abc import Sequence

from langgraph.runtime import Runtime

from mnemic.models.embedders import Vector
from mnemic.operations.recall.changes import announce, unannounced
from mnemic.operations.recall.standing import not_shown, over_budget, read_standing, with_shown
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.node_types import RecallNode
from mnemic.operations.run.resources import Provider, Resources
from mnemic.operations.run.serialization import to_plain
from mnemic.policy.recall.heuristics import NAMES_NEEDED, unknown_names
from mnemic.state.errors import BusyError, DatabaseUnavailableError, EmbeddingError
from mnemic.state.graphs import Degraded, RecallState
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Found, Standing
from mnemic.storage.search import search

_LOG = logging.getLogger("mnemic")


def read_context(provide: Provider) -> RecallNode:
    """BEGIN, scope, standing part, what changed since the session was told last, at most one search, COMMIT.

    The question is embedded before the transaction begins, so that no connection waits for a model; that is done
    only where a search will or may follow. A turn is answered all the same where the embedder or the database fails:
    with less memory, and saying so.
    """

    async def read_context(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        identity = identity_of(runtime)
        try:
            return await _recalled(await provide(), identity, state)
        except (DatabaseUnavailableError, BusyError) as error:
            _LOG.warning("this recall goes without memory: %s", error)
            lacks: Degraded = "busy" if isinstance(error, BusyError) else "no_memory"
            nothing: RecallState = {"searched": None, "budget": 0, "standing": [], "found": [], "degraded": lacks}
            return {**nothing, **unannounced(), "over_budget": []}

    return read_context


async def _recalled(resources: Resources, identity: Identity, state: RecallState) -> RecallState:
    if not resources.settings.rag:
        state = {**state, "searched": None, "names": []}
    may_search = state["searched"] is not None or len(state["names"]) >= NAMES_NEEDED
    vector = await _vector(resources, state["question"]) if may_search else None
    read = await _read(resources, identity, state, vector)
    if read["searched"] is not None and vector is None:
        read["degraded"] = "text_only"
    return read


async def _vector(resources: Resources, question: str) -> Vector | None:
    """The question's; None where the embedder fails, or keeps a turn waiting."""
    settings = resources.settings
    # what this machine works out itself cannot be away: it only has others' questions before it
    limit = settings.pool_timeout_seconds if resources.embedder.local else settings.recall_timeout_seconds
    try:
        async with asyncio.timeout(limit):
            return (await resources.embedder.embed([question]))[0]
    except EmbeddingError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"no answer within {limit:g} s"
    _LOG.warning("the question has no vector, so a search goes by text alone: %s", problem)
    return None


async def _read(resources: Resources, identity: Identity, state: RecallState, vector: Vector | None) -> RecallState:
    reason = state["searched"]
    allowed = resources.categories.of_role(identity.role).categories
    async with resources.database.scoped(identity, categories=allowed, for_recall=True) as scoped:
        part = await read_standing(scoped, resources, identity.role)
        settings = resources.settings.overridden_for_recall(part.overrides)
        told = await announce(scoped, resources, settings)
        standing = part.scopes if settings.always_in_context else ()
        if reason is None and _are_unknown(state["names"], standing):
            reason = "names"
        found: Sequence[Found] = ()
        if reason is not None and settings.rag:
            found = await search(
                scoped,
                MemoryQuery(query=state["question"], top_k=with_shown(settings.recall_limit, standing)),
                vector,
                model=resources.embedder.name,
                settings=settings,
                categories=allowed,
                rag_lengths=resources.categories.rag_lengths,
            )
            found = not_shown(found, standing, most=settings.recall_limit)
    return {
        "searched": reason if settings.rag else None,
        "budget": state.get("budget_tokens") or settings.recall_budget_tokens,
        "standing": to_plain(Standing, standing),
        "found": to_plain(Found, found),
        "degraded": None,
        "over_budget": over_budget(standing, settings),
        **told,
    }


def _are_unknown(names: Sequence[str], standing: Sequence[Standing]) -> bool:
    text = "\n".join(part.text for part in standing)
    return len(unknown_names(tuple(names), text)) >= NAMES_NEEDED
