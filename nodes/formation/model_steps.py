"""Formation's steps in which a model answers, and what they need to know of what is stored.

Facts are extracted, compared with those that are known and decided on; then come reflections and one episode. Or
observations, in a single call in place of all of them.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from langgraph.runtime import Runtime

from mnemic.memory.formation.builder import MemoryBuilder
from mnemic.memory.formation.candidates import changeable_keys, shown_to_decide, standing_lines, worth_showing
from mnemic.memory.formation.decisions import apply_decisions, closings_allowed, compare_facts
from mnemic.memory.formation.invalidations import without_unrelated
from mnemic.memory.formation.selection import most_important
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.scoping import ScopeResolver
from mnemic.memory.runtime.transcript import group_names, speakers
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.prices import spent_on
from mnemic.models.structured import run_step
from mnemic.prompts.conversation import Line, People, Speaker
from mnemic.prompts.extraction import (
    DECIDE,
    EXTRACT_FACTS,
    EXTRACT_OBSERVATIONS,
    EXTRACT_REFLECTIONS,
    ExtractFactsOutput,
    ExtractionInput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
)
from mnemic.prompts.loader import Step
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.records import Memory, Message, NewMemory, ScopeContext
from mnemic.state.settings import Settings
from mnemic.storage import memories

Answer = TypeVar("Answer", bound=ExtractFactsOutput | ExtractReflectionsOutput | ExtractObservationsOutput)


async def extract_facts(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """One fast call; every text passes the validator, every owner comes from the messages it cites."""
    if not resources.settings.overridden(state["overrides"]).rag:
        return {"facts": []}
    builder = await _drafts(state, resources, runtime, EXTRACT_FACTS, MemoryBuilder.add_facts)
    kept = most_important([*builder.memories.values()], state["max_facts"])
    places = {message.id: place for place, message in enumerate(state["batch"])}
    kept.sort(key=lambda fact: (fact.valid_from, places[fact.source_message_ids[-1]]))
    return {"facts": kept, "private": builder.private, **builder.update(state, kept)}


async def find_similar(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Drops new facts that are known word for word, relates the others, and gathers what a decision is needed on.

    One embedding batch, one query. What the transaction may see and the run may change is asked for, in whatever words.
    Facts without a vector are compared by words and subject alone.
    """
    identity = identity_of(runtime)
    facts, batch, settings = state["facts"], state["batch"], resources.settings
    resources = await with_agents_embedder(resources, identity)
    vectors = await embed_to_store(resources, [fact.search_text for fact in facts])
    keys, model = changeable_keys(facts, resolver_of(state, resources, identity)), resources.embedder.name
    most = settings.candidates_per_fact
    async with resources.database.transaction(identity, also=_own_keys(batch)) as scoped:
        stored = await memories.find_candidates(scoped, facts, keys, vectors, model=model, limit=most)
    # in a thread: 25 facts, each compared with all before it, take 20 ms
    update = await asyncio.to_thread(compare_facts, facts, vectors, stored, resources.embedder.bands, settings)
    shown = worth_showing(
        update["facts"],
        update["candidates"],
        state["names"],
        fallback=resources.embedder.bands.fallback,
        least=most,
        most_tokens=settings.decision_tokens,
    )
    return {**update, "candidates": shown, "embedder": model}


async def decide(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """ADD, UPDATE, DELETE with the new fact in its place, or NONE: one call for all facts, of what it was shown."""
    facts, candidates, batch = state["facts"], state["candidates"], state["batch"]
    identity, settings, names = identity_of(runtime), resources.settings, state["names"]
    async with resources.database.transaction(identity) as scoped:
        standing = (await memories.with_drafts(scoped, await memories.read_context(scoped))).scopes
    is_own = {*speakers(batch)} <= {identity.user_id}
    context = standing_lines(standing, names, is_own=is_own, most=settings.decision_tokens)
    deciding = run_step(DECIDE, shown_to_decide(facts, candidates, names, context), resources.models)
    answer, used = await track_usage(resources, identity, deciding)
    spent = spent_on(used, resources.settings.model_prices)
    bands = resources.with_embedder(state.get("embedder")).embedder.bands
    related, unrelated = without_unrelated(facts, candidates, answer.decisions, bands)
    outcome = apply_decisions(
        facts,
        candidates,
        related,
        closings=closings_allowed(batch, settings.closings_per_message),
    )
    changed = {fact.id for fact in facts if outcome.facts.get(fact.id, fact).content != fact.content}
    return {
        "facts": [*outcome.facts.values()],
        "vectors": {key: vector for key, vector in state["vectors"].items() if key not in changed},
        "closing": [*outcome.closing.values()],
        "repeated": state["repeated"] + len(facts) - len(outcome.facts),
        "repeats": [*state["repeats"], *outcome.repeats],
        **({"refused": {"unrelated": unrelated}} if unrelated else {}),
        **({"spent": spent} if spent else {}),
    }


def _own_keys(batch: Sequence[Message]) -> list[str]:
    return [scope_key("user", user) for user in speakers(batch)]


async def extract_reflections(
    state: FormationState, resources: Resources, runtime: Runtime[Identity]
) -> FormationState:
    """One slow call that sees what is already in context and the facts just decided on; the widest scope first."""
    if not resources.settings.overridden(state["overrides"]).always_in_context:
        return {"reflections": []}
    builder = await _drafts(state, resources, runtime, EXTRACT_REFLECTIONS, MemoryBuilder.add_reflections)
    drafted = [*builder.memories.values()]
    return {"reflections": drafted, **builder.update(state, drafted)}


async def extract_observations(
    state: FormationState, resources: Resources, runtime: Runtime[Identity]
) -> FormationState:
    """One fast call that sees what is already in context; its observations become reflections."""
    builder = await _drafts(state, resources, runtime, EXTRACT_OBSERVATIONS, MemoryBuilder.add_observations)
    kept = most_important([*builder.memories.values()], state["max_facts"])
    return {"reflections": kept, **builder.update(state, kept)}


async def _drafts(
    state: FormationState,
    resources: Resources,
    runtime: Runtime[Identity],
    step: Step[ExtractionInput, Answer],
    add: Callable[[MemoryBuilder, Answer], None],
) -> MemoryBuilder:
    """The memories that were made of a step's answer; a useless answer is repaired once.

    Args:
        step: which.
        add: gives the answer's drafts to the builder.

    Raises:
        ModelError: as `track_usage`.
    """
    identity = identity_of(runtime)
    standing: Sequence[ScopeContext] = ()
    if step.prompt is not EXTRACT_FACTS.prompt:  # what is in context is shown, and not to be said again
        async with resources.database.transaction(identity) as scoped:
            standing = (await memories.with_drafts(scoped, await memories.read_context(scoped))).scopes
    settings = resources.settings.overridden(state["overrides"])
    step_input = _step_input(state, identity, settings, resources.categories.offered, standing)
    resolver = resolver_of(state, resources, identity)
    in_context = [memory for part in standing for memory in [*part.texts, *part.facts]]
    shown = "\n".join(message.text for message in step.messages(step_input))

    def built(answer: Answer) -> MemoryBuilder:
        known: list[Memory | NewMemory] = [*in_context, *state["facts"]]
        nothing_else, private = answer.nothing_else, state["private"]
        builder = MemoryBuilder(resolver, resources.categories, step.prompt, known, nothing_else, private, shown)
        add(builder, answer)
        builder.refuse_unreadable(answer.unreadable)
        return builder

    asking = run_step(step, step_input, resources.models, lambda answer: built(answer).flaw())
    answer, used = await track_usage(resources, identity, asking)
    builder = built(answer)
    builder.spent = spent_on(used, resources.settings.model_prices)
    return builder


def resolver_of(state: FormationState, resources: Resources, identity: Identity) -> ScopeResolver:
    """Return the rules of sharing for the batch of a run."""
    settings = resources.settings.overridden(state["overrides"])
    groups, personal = group_names(identity, state["names"]), resources.categories.personal
    return ScopeResolver(state["batch"], identity, groups, settings, personal)


def _people(batch: Sequence[Message], identity: Identity, names: Mapping[str, str], settings: Settings) -> People:
    """Who takes part, the users in the order in which they speak."""
    authors = {message.user_id: message.author for message in batch if message.user_id}
    members, own = identity.may_speak_for("group"), identity.user_id
    teaches = identity.teaches_agent or settings.share_with_agent == "open"
    return People(
        agent=names.get(scope_key("agent", identity.agent_id)) or display_name(identity.agent_id),
        persona=settings.persona or "",
        speakers=tuple(
            Speaker(author, is_member=bool(identity.group_ids) and user in members, teaches=teaches and user == own)
            for user, author in authors.items()
        ),
        groups=group_names(identity, names),
    )


def _step_input(
    state: FormationState,
    identity: Identity,
    settings: Settings,
    categories: tuple[tuple[str, str], ...],
    standing: Sequence[ScopeContext],
) -> ExtractionInput:
    """What a step is shown.

    Where others speak than the run's own user, nobody's own memory may colour what is written for them: that is not
    shown, and not stored twice either.
    """
    batch, names = state["batch"], state["names"]
    is_own = {*speakers(batch)} <= {identity.user_id}
    return ExtractionInput(
        lines=tuple(
            Line(number, message.author, message.role, message.said_at, message.content)
            for number, message in enumerate(batch, start=1)
        ),
        people=_people(batch, identity, names, settings),
        guidance=state["guidance"],
        categories=categories,
        limit=state["max_facts"],
        standing=tuple(
            (names.get(part.scope_key) or display_name(split_scope_key(part.scope_key)[1]), part)
            for part in standing
            if is_own or part.scope != "user"
        ),
        language=settings.language or ExtractionInput.language,
    )
