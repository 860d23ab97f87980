"""The nodes of the recall graph: what a turn is given of its memory. None of them asks a chat model, or writes."""

import asyncio
import logging
from dataclasses import replace
from functools import partial

from langgraph.runtime import Runtime
from pydantic import ConfigDict, TypeAdapter

from mnemic.memory.recall.delta import header
from mnemic.memory.recall.heuristics import search_reason
from mnemic.memory.recall.query import fit_results, read_standing, search_setup, warn_of_other_vectors
from mnemic.memory.recall.query import search as search_memories
from mnemic.memory.runtime.embedding import is_switched, with_agents_embedder
from mnemic.memory.runtime.graph import Node
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import clean_question, count_tokens
from mnemic.models.embedders.splitting import embed_each
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.recall.memory_context import found_line, render_standing, render_turn
from mnemic.state.checking import validate
from mnemic.state.errors import BusyError, DatabaseUnavailableError, EmbeddingError
from mnemic.state.graphs import Degraded, MemoryContext, RecallInput, RecallState
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.query import MAX_TOP_K, SIGNS, MemoryQuery
from mnemic.state.records import SearchResult
from mnemic.state.settings import Settings
from mnemic.storage import revisions
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: Results are the graph's output, so they are plain JSON. Built when first used, which importing need not wait for.
_FOUND = TypeAdapter(list[SearchResult], config=ConfigDict(defer_build=True))


async def read_context(state: RecallState, resources: Resources, runtime: Runtime[Identity]) -> RecallState:
    """Reads what is always in context, and what changed since the session was told last, in one transaction."""
    request, identity = validate(RecallInput, state), identity_of(runtime)
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories, for_recall=True) as scoped:
        part = await read_standing(scoped, resources, allowlist)
        settings = resources.settings.overridden_for_recall(part.overrides)
        changes = await _changes(scoped, settings, standing=allowlist.standing)
    standing = part.scopes if settings.always_in_context else ()
    delta, texts = changes["delta"], [memory.id for each in standing for memory in (*each.texts, *each.facts)]
    resources.shown.note(identity, [*texts, *(delta.shown if delta else ())])
    return {
        "search": request.get("search", "auto") if settings.rag else "never",
        "budget_tokens": request.get("budget_tokens") or settings.recall_budget_tokens,
        "overrides": part.overrides,
        "standing": standing,
        "found": (),
        "degraded": None,
        "over_budget": [part.scope_key for part in standing if part.tokens > settings.refinement_budget_tokens],
        **changes,
    }


async def decide(state: RecallState, resources: Resources, _: Runtime[Identity]) -> RecallState:
    """Whether this turn needs a search, by the words of its question and without a model."""
    question = clean_question(state.get("question", ""))
    if state["search"] == "never" or not question:
        return {"question": question, "searched": None}
    if state["search"] == "always":
        return {"question": question, "searched": "asked"}
    return {"question": question, "searched": search_reason(question, state["standing"], resources.requests)}


async def search(state: RecallState, resources: Resources, runtime: Runtime[Identity]) -> RecallState:
    """The best results that fit into the budget and do not stand in the context already; they count as used.

    The question is embedded before the transaction begins, so that no connection waits for a model. Where the embedder
    fails, the search goes by text alone.
    """
    identity, settings = identity_of(runtime), resources.settings.overridden_for_recall(state["overrides"])
    shown = {fact.id for part in state["standing"] for fact in part.facts}
    request = MemoryQuery(query=state["question"], top_k=min(MAX_TOP_K, settings.recall_limit + len(shown)))
    searched = await _search(resources, identity, settings, request)
    if searched is None:  # the agent was switched to another embedder meanwhile
        searched = await _search(resources, identity, settings, request)
    found, degraded = searched or ([], "text_only")
    fresh = [item for item in found if item.item_id not in shown]
    best = [item for item in fresh if item.related_to is None][: settings.recall_limit]
    kept = {item.item_id for item in best}
    wanted = [*best, *(item for item in fresh if item.related_to in kept)]
    # a sentence that was said twice of the same subject needs no second line: the first of each, in their order
    single = list({(item.subject, item.content): item for item in reversed(wanted)}.values())[::-1]
    fitting = fit_results(
        single, partial(found_line, reader=identity.user_id), state["question"], state["budget_tokens"] or 0
    )
    resources.note_uses(identity, fitting)
    resources.shown.note(identity, [item.item_id for item in fitting])
    # the output of a graph is checkpointed: a long message goes into it by its passage alone
    fitting = [replace(item, content=item.shown) for item in fitting]
    return {"found": fitting, "degraded": degraded}


async def _search(
    resources: Resources, identity: Identity, settings: Settings, request: MemoryQuery
) -> tuple[list[SearchResult], Degraded | None] | None:
    """Return the results and how they are degraded, or None if the agent was switched to another embedder meanwhile."""
    chosen = await with_agents_embedder(resources, identity, for_recall=True)
    vector = await _vector(chosen, request.query)
    allowed = resources.categories.of_role(identity.role).categories
    async with resources.database.transaction(identity, categories=allowed, for_recall=True) as scoped:
        found = await search_memories(scoped, search_setup(chosen, settings), request, vector, allowed)
        if await is_switched(resources, chosen, scoped):
            return None
        if vector:
            await warn_of_other_vectors(chosen, scoped, found)
    return found, None if vector else "text_only"


async def render(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
    """Write the context. The budget bounds the search results; refinement bounds the always-in-context part."""
    standing, found, reader = state["standing"], state["found"], identity_of(runtime).user_id
    names = {part.scope_key: display_name(split_scope_key(part.scope_key)[1]) for part in standing}
    context: MemoryContext = {
        "standing": render_standing(standing, names=names, reader=reader),
        "turn": render_turn(found, state["delta"], reader=reader),
    }
    tokens = count_tokens(context["standing"]) + count_tokens(context["turn"])
    return {"context": context, "memories": _FOUND.dump_python([*found], mode="json"), "tokens": tokens}


def or_without_memory(node: Node[RecallState]) -> Node[RecallState]:
    """The node; without a database, a turn is answered all the same, and the context says that it has no memory."""

    async def run(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        try:
            return await node(state, runtime)
        except (DatabaseUnavailableError, BusyError) as error:
            _LOG.warning("this recall goes without memory: %s", error)
            degraded: Degraded = "busy" if isinstance(error, BusyError) else "no_memory"
        nothing: RecallState = {"search": "never", "searched": None, "standing": (), "found": (), "over_budget": []}
        return {**nothing, "degraded": degraded, **_unannounced()}

    return run


def _unannounced() -> RecallState:
    """Nothing was looked for, so nobody has been told of anything."""
    return {"revision": None, "updates": [], "delta": None}


async def _changes(scoped: ScopedTransaction, settings: Settings, *, standing: bool) -> RecallState:
    """The delta header, the changes behind it, and up to where they go: one statement, for a session alone."""
    session = scoped.identity.session_id
    if session is None or not (settings.always_in_context or settings.rag):
        return _unannounced()
    read = await revisions.read_changes(scoped, session, with_context=standing)
    delta = header(read, scoped.identity.user_id)
    updates = [
        {
            "revision": change.revision,
            "event": change.event,
            "sign": SIGNS[change.event],
            "memory_id": str(change.memory_id),
        }
        for change in (delta.changes if delta else ())
    ]
    return {"revision": read.revision, "updates": updates, "delta": delta}


async def _vector(resources: Resources, question: str) -> Vector | None:
    """The question's; None where the embedder fails, or keeps a turn waiting."""
    settings = resources.settings
    # what this machine works out itself cannot be away: it only has others' questions before it
    limit = settings.pool_timeout_seconds if resources.embedder.local else settings.recall_timeout_seconds
    try:
        async with asyncio.timeout(limit):
            (vector,) = await embed_each(resources.embedder, [question])
        problem = "the model refuses it"
    except (EmbeddingError, TimeoutError) as error:
        vector = None
        problem = str(error) if isinstance(error, EmbeddingError) else f"no answer within {limit:g} s"
    if vector is None:
        _LOG.warning("the question has no vector, so a search goes by text alone: %s", problem)
    return vector
