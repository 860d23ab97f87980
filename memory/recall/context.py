"""The operations of the recall graph: read, decide, search, render. They call no chat model and write nothing."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from mnemic.memory.recall.delta import header
from mnemic.memory.recall.heuristics import search_reason, words_to_count
from mnemic.memory.recall.search import VisibleSearch, fit_results, worth_a_line
from mnemic.memory.recall.turn_words import telling_stems
from mnemic.memory.runtime.categories import Allowlist
from mnemic.memory.runtime.identity import log_ids
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import clean_question, count_tokens, fit
from mnemic.models.embedders import embed_each
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.recall.memory_context import found_line, memory_line, render_standing, render_turn
from mnemic.state.errors import BusyError, EmbeddingError, MnemicError
from mnemic.state.graphs import Degraded, MemoryContext, RecallInput, RecallReading, RecallState, SearchReason
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.kinds import CONTEXT_KINDS
from mnemic.state.query import MAX_TOP_K, SIGNS, Changes, Delta, MemoryQuery
from mnemic.state.records import ContextPart, Memory, ScopeContext, SearchResult, TurnWords
from mnemic.state.settings import Settings
from mnemic.storage import memories, revisions
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: A similarity is weak below this part of the one from which two facts are related.
_WEAK: Final = 10


# -- read


async def read_context(resources: Resources, identity: Identity, request: RecallInput) -> RecallState:
    """Read the memories that are always in context and the changes since the session's last recall.

    Both come from one transaction.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories, for_recall=True) as tx:
        part = await read_always_in_context(tx, resources, allowlist, _words_to_count(resources, request))
        settings = resources.settings.overridden_for_recall(part.overrides)
        changes = await _read_changes(tx, settings, allowlist)
    delta = changes and header(changes, identity.user_id)
    reading = RecallReading(
        search=request.get("search", "auto") if settings.rag else "never",
        budget_tokens=request.get("budget_tokens") or settings.recall_budget_tokens,
        overrides=part.overrides,
        scopes=part.scopes if settings.always_in_context else (),
        delta=delta,
        counts=part.counts,
    )
    _note_shown(resources, identity, reading)
    over_budget: list[str] = []
    for scope in reading.scopes:
        if scope.tokens > settings.refinement_budget_tokens:
            over_budget.append(scope.scope_key)
    return {
        "reading": reading,
        "results": (),
        "degraded": None,
        "over_budget": over_budget,
        "revision": changes and changes.revision,
        "updates": _updates(delta),
    }


def _words_to_count(resources: Resources, request: RecallInput) -> TurnWords | None:
    """Return the words of the turn whose entries decide on a search, if there are any."""
    if request.get("search", "auto") != "auto" or not resources.settings.rag:
        return None
    question, previous = clean_question(request.get("question", "")), clean_question(request.get("previous", ""))
    return words_to_count(question, previous, resources.requests)


async def _read_changes(tx: ScopedTransaction, settings: Settings, allowlist: Allowlist) -> Changes | None:
    """Return the changes since the session's last recall; None without a session, or if the agent uses no memory."""
    session_id = tx.identity.session_id
    if session_id is None or not (settings.always_in_context or settings.rag):
        return None
    return await revisions.read_changes(tx, session_id, with_context=allowlist.standing)


def _note_shown(resources: Resources, identity: Identity, reading: RecallReading) -> None:
    """Note the memories with text in the context, so that their removal is announced."""
    ids: list[UUID] = []
    for scope in reading.scopes:
        for memory in (*scope.texts, *scope.facts):
            ids.append(memory.id)
    if reading.delta:
        ids += reading.delta.shown
    resources.shown.note(identity, ids)


def _updates(delta: Delta | None) -> list[dict[str, Any]]:
    """Return the announced changes as plain JSON, without a text."""
    if delta is None:
        return []
    updates: list[dict[str, Any]] = []
    for change in delta.changes:
        sign = SIGNS[change.event]
        memory_id = str(change.memory_id)
        updates.append({"revision": change.revision, "event": change.event, "sign": sign, "id": memory_id})
    return updates


def without_memory(error: MnemicError) -> RecallState:
    """Return the state of a recall that goes without memory because of this error. It announces nothing."""
    degraded: Degraded = "busy" if isinstance(error, BusyError) else "no_memory"
    return {
        "reading": RecallReading(search="never"),
        "results": (),
        "degraded": degraded,
        "searched": None,
        "over_budget": [],
        "revision": None,
        "updates": [],
    }


# -- decide


def decide_search(resources: Resources, request: RecallInput, reading: RecallReading) -> RecallState:
    """Decide, without a model, whether the turn needs a search, and clean its question."""
    question, previous = clean_question(request.get("question", "")), clean_question(request.get("previous", ""))
    reason: SearchReason | None = None
    if question and reading.search == "always":
        reason = "asked"
    elif question and reading.search == "auto":
        reason = search_reason(question, previous, reading.counts, resources.requests)
    if reason == "follow_up":
        question = clean_question(f"{previous}\n{question}")
    return {"question": question, "searched": reason}


# -- search


async def search_for_turn(
    resources: Resources, identity: Identity, question: str, reading: RecallReading
) -> RecallState:
    """Return the best results that fit into the budget and are not in context already; they count as used.

    If the embedder fails, the search goes by text alone.
    """
    settings = resources.settings.overridden_for_recall(reading.overrides)
    in_context: set[UUID] = set()
    for scope in reading.scopes:
        in_context.update(fact.id for fact in scope.facts)
    top_k = min(MAX_TOP_K, settings.recall_limit + len(in_context))
    searched = await VisibleSearch(
        resources=resources,
        identity=identity,
        settings=settings,
        request=MemoryQuery(query=question, top_k=top_k),
        categories=resources.categories.of_role(identity.role).categories,
        embed=partial(_embed_question, identity=identity, question=question),
    ).run()
    fresh: list[SearchResult] = []
    for result in searched.results:
        if result.id not in in_context:
            fresh.append(result)
    if reading.search == "auto":
        telling = telling_stems(question, reading.counts)
        fresh = worth_a_line(fresh, telling, resources.embedder.bands.fallback / _WEAK)
    results = _without_repeated_text(_best_with_related(fresh, settings.recall_limit))
    line = partial(found_line, reader=identity.user_id)
    fitting = fit_results(results, line, question, reading.budget_tokens)
    resources.note_uses(identity, fitting)
    resources.shown.note(identity, [result.id for result in fitting])
    # the output of a graph may be checkpointed, so a long message goes into it by its excerpt alone
    shown = [replace(result, content=result.shown) for result in fitting]
    degraded: Degraded | None = None if searched.has_vector else "text_only"
    return {"results": shown, "degraded": degraded}


def _best_with_related(results: Sequence[SearchResult], limit: int) -> list[SearchResult]:
    """Return at most so many results, then the memories that are related to them."""
    best: list[SearchResult] = []
    related: list[SearchResult] = []
    for result in results:
        if result.related_to is not None:
            related.append(result)
        elif len(best) < limit:
            best.append(result)
    best_ids = {result.id for result in best}
    for result in related:
        if result.related_to in best_ids:
            best.append(result)
    return best


def _without_repeated_text(results: Sequence[SearchResult]) -> list[SearchResult]:
    """Return the first result of each text about a subject, in order."""
    first: dict[tuple[str, str], SearchResult] = {}
    for result in results:
        first.setdefault((result.subject, result.content), result)
    return list(first.values())


async def _embed_question(resources: Resources, identity: Identity, question: str) -> Vector | None:
    """Return the vector of the question; None if the embedder fails, refuses it, or takes too long for a turn."""
    settings = resources.settings
    limit = settings.recall_timeout_seconds
    if resources.embedder.local:  # it cannot be away; it only has the questions of others before this one
        limit = settings.pool_timeout_seconds
    try:
        async with asyncio.timeout(limit):
            (vector,) = await embed_each(resources.embedder, [question])
    except EmbeddingError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"no answer within {limit:g} s"
    else:
        if vector is not None:
            return vector
        problem = "the model refuses it"
    text = "The question has no vector, so the search goes by text alone: %s."
    _LOG.warning(text, problem, extra=log_ids(identity))
    return None


# -- render


def render_context(reading: RecallReading, results: Sequence[SearchResult], reader: str | None) -> RecallState:
    """Return the context as text.

    The budget bounds the search results. Refinement bounds the memories that are always in context.
    """
    names: dict[str, str] = {}
    for scope in reading.scopes:
        _, scope_id = split_scope_key(scope.scope_key)
        names[scope.scope_key] = display_name(scope_id)
    context = MemoryContext(
        standing=render_standing(reading.scopes, names=names, reader=reader),
        turn=render_turn(results, reading.delta, reader=reader),
    )
    tokens = count_tokens(context.standing) + count_tokens(context.turn)
    return {"context": context, "tokens": tokens}


# -- memories that are always in context

#: Tokens of the shortest line of a fact: a date and hardly more, 16 characters.
_MIN_FACT_TOKENS: Final = 4


async def read_always_in_context(
    tx: ScopedTransaction, resources: Resources, allowlist: Allowlist, turn: TurnWords | None = None
) -> ContextPart:
    """Return the memories that are always in context for a role, and the settings that the agent overrides.

    Consolidations, reflections and core memories are for roles with `standing` alone. Facts of a category that is
    always in context are for every role with that category, within the tokens that the other texts leave.
    """
    budget = resources.settings.standing_tokens
    fact_categories: list[str] = []
    for name in resources.categories.always:
        if name in allowlist.categories:
            fact_categories.append(name)
    part = await memories.read_context(
        tx,
        kinds=CONTEXT_KINDS if allowlist.standing else (),
        fact_categories=fact_categories,
        max_facts=budget // _MIN_FACT_TOKENS,
        turn=turn,
    )
    return part._replace(scopes=tuple(fit_facts(part.scopes, budget, tx.identity.user_id)))


def fit_facts(scopes: Sequence[ScopeContext], budget: int, reader: str | None = None) -> list[ScopeContext]:
    """Return the scopes with the facts that fit; over all scopes the most important come first, then the newest.

    A scope without any text is left out.
    """
    left = budget
    facts: list[Memory] = []
    for scope in scopes:
        left -= scope.tokens
        facts += scope.facts
    facts.sort(key=_importance_and_age)
    chosen = fit(facts, tokens=lambda fact: count_tokens(memory_line(fact, reader)), budget=left)
    by_key: defaultdict[str, list[Memory]] = defaultdict(list)
    for fact in chosen:
        by_key[fact.scope_key].append(fact)
    fitted: list[ScopeContext] = []
    for scope in scopes:
        in_scope = tuple(by_key[scope.scope_key])
        if in_scope or scope.texts:
            fitted.append(replace(scope, facts=in_scope))
    return fitted


def _importance_and_age(fact: Memory) -> tuple[int, float, str]:
    return -fact.importance, -fact.valid_from.timestamp(), str(fact.id)
