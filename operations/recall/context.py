"""What a turn is given: the standing part, what changed since the session was told last, and at most one search."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from mnemic.models.embedders import Vector
from mnemic.operations.recall.query import search, search_setup
from mnemic.operations.run.resources import Resources
from mnemic.policy.recall.delta import SIGNS, header
from mnemic.policy.text.shape import count_tokens, fit
from mnemic.prompts.memory_context import found_line, memory_line
from mnemic.state.errors import BusyError, DatabaseUnavailableError, EmbeddingError
from mnemic.state.graphs import RecallInput, RecallState
from mnemic.state.identity import Identity
from mnemic.state.query import MAX_TOP_K, Change, MemoryQuery
from mnemic.state.records import Found, Memory, Standing, StandingPart
from mnemic.state.settings import Settings
from mnemic.storage import memories, revisions
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: The shortest line of a fact, a date and hardly more, has 16 characters.
_LEAST_TOKENS = 4


async def read_context(resources: Resources, identity: Identity, request: RecallInput) -> RecallState:
    """The standing part, and what changed, in one transaction. Without the database: nothing, and why.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowed = resources.categories.of_role(identity.role).categories
    try:
        async with resources.database.scoped(identity, categories=allowed, for_recall=True) as scoped:
            part = await read_standing(scoped, resources, identity.role)
            settings = resources.settings.overridden_for_recall(part.overrides)
            changes = await _changes(scoped, resources, settings)
    except (DatabaseUnavailableError, BusyError) as error:
        return without_memory(error)
    standing = part.scopes if settings.always_in_context else ()
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


async def search_context(resources: Resources, identity: Identity, state: RecallState) -> RecallState:
    """The results that fit into the budget and do not stand in the context already; they count as used.

    The question is embedded before the transaction begins, so that no connection waits for a model. Where the embedder
    fails, the search goes by text alone.
    """
    settings = resources.settings.overridden_for_recall(state["overrides"])
    question, standing, most = state["question"], state["standing"], settings.recall_limit
    vector = await _vector(resources, question)
    allowed = resources.categories.of_role(identity.role).categories
    shown = _shown(standing)
    request = MemoryQuery(query=question, top_k=min(MAX_TOP_K, most + len(shown)))
    try:
        async with resources.database.scoped(identity, categories=allowed, for_recall=True) as scoped:
            found = await search(scoped, search_setup(resources, settings), request, vector, allowed)
    except (DatabaseUnavailableError, BusyError) as error:
        return without_memory(error)
    fitting = fit(
        _once(_not_shown(found, shown, most)),
        tokens=lambda item: count_tokens(found_line(item)),
        budget=state["budget_tokens"] or 0,
    )
    resources.note_uses(identity, [item.item_id for item in fitting if item.kind != "message"])
    return {"found": fitting, "degraded": None if vector else "text_only"}


def without_memory(error: DatabaseUnavailableError | BusyError) -> RecallState:
    """A turn is answered all the same, and the context says that it goes without memory."""
    _LOG.warning("this recall goes without memory: %s", error)
    return {
        "search": "never",
        "searched": None,
        "standing": (),
        "found": (),
        "degraded": "busy" if isinstance(error, BusyError) else "no_memory",
        "over_budget": [],
        **_unannounced(),
    }


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


# -- what changed


async def _changes(scoped: ScopedTransaction, resources: Resources, settings: Settings) -> RecallState:
    """The delta header, the changes behind it, and up to where they go: one statement, for a session alone."""
    session = scoped.identity.session_id
    if session is None or not (settings.always_in_context or settings.rag):
        return _unannounced()
    allowlist = resources.categories.of_role(scoped.identity.role)
    read = await revisions.changes(scoped, session, standing=allowlist.standing)
    return {"revision": read.revision, "updates": [_row(change) for change in read.changes], "delta": header(read)}


def _unannounced() -> RecallState:
    """Nothing was looked for, so nobody has been told of anything."""
    return {"revision": None, "updates": [], "delta": None}


def _row(change: Change) -> dict[str, int | str]:
    return {
        "seq": change.seq,
        "event": change.event,
        "sign": SIGNS[change.event],
        "memory_id": str(change.memory_id),
    }


# -- the standing part


async def read_standing(scoped: ScopedTransaction, resources: Resources, role: str) -> StandingPart:
    """What is always in context for a role.

    Standing texts come to roles marked so; facts of a category that is always in context, to every role whose
    allowlist has it, within the tokens that the texts leave.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist, budget = resources.categories.of_role(role), resources.settings.standing_tokens
    part = await memories.standing(
        scoped,
        kinds=memories.STANDING if allowlist.standing else (),
        always=[name for name in resources.categories.always if name in allowlist.categories],
        most=budget // _LEAST_TOKENS,
    )
    return part._replace(scopes=tuple(fit_facts(part.scopes, budget)))


def fit_facts(scopes: Sequence[Standing], budget: int) -> Iterator[Standing]:
    """The scopes with the facts that fit: over all of them the most important first, then the newest."""
    left = budget - sum(part.tokens for part in scopes)
    ranked = sorted((fact for part in scopes for fact in part.facts), key=_rank)
    chosen = fit(ranked, tokens=lambda fact: count_tokens(memory_line(fact)), budget=left)
    for part in scopes:
        facts = tuple(fact for fact in chosen if fact.scope_key == part.scope_key)
        if facts or part.texts:
            yield replace(part, facts=facts)


def _rank(fact: Memory) -> tuple[int, float, str]:
    return -fact.importance, -fact.valid_from.timestamp(), str(fact.id)


# -- results


def _shown(standing: Sequence[Standing]) -> set[UUID]:
    return {fact.id for part in standing for fact in part.facts}


def _not_shown(found: Sequence[Found], shown: set[UUID], most: int) -> list[Found]:
    """The best `most` results that do not stand in the context already, and what came along with them."""
    fresh = [item for item in found if item.item_id not in shown]
    best = [item for item in fresh if item.related_to is None][:most]
    kept = {item.item_id for item in best}
    return [*best, *(item for item in fresh if item.related_to in kept)]


def _once(found: Sequence[Found]) -> list[Found]:
    """Without what says the same of the same: a sentence said twice needs no second line."""
    return list({(item.subject, item.content): item for item in reversed(found)}.values())[::-1]
