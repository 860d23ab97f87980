"""Extraction of facts, reflections or observations from a formation's messages, each with one answer of a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from mnemic.memory.formation.builder import BuilderContext, MemoryBuilder, most_important
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.scoping import ScopeResolver
from mnemic.memory.runtime.transcript import group_names, speakers
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.answers import spent_on
from mnemic.models.structured import run_step
from mnemic.prompts.conversation import Line, People, Speaker
from mnemic.prompts.formation.extraction import (
    EXTRACT_FACTS,
    EXTRACT_OBSERVATIONS,
    EXTRACT_REFLECTIONS,
    ExtractFactsOutput,
    ExtractionInput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
)
from mnemic.prompts.loader import Step
from mnemic.state.graphs import FormationRun
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.records import Memory, Message, NewMemory, ScopeContext
from mnemic.state.settings import Settings
from mnemic.storage import memories

Answer = TypeVar("Answer", bound=ExtractFactsOutput | ExtractReflectionsOutput | ExtractObservationsOutput)


async def extract_facts(resources: Resources, identity: Identity, run: FormationRun) -> FormationRun:
    """Extract the most important facts, in the order of their messages.

    Raises:
        ModelError: if the model fails, or its answer is useless after a repair.
    """
    if not resources.settings.overridden(run.overrides).rag:
        return run
    run, builder = await _extract(resources, identity, run, EXTRACT_FACTS, MemoryBuilder.add_facts)
    facts = most_important(list(builder.memories.values()), run.max_facts)
    places = {message.id: place for place, message in enumerate(run.batch)}
    facts.sort(key=lambda fact: (fact.valid_from, places[fact.source_message_ids[-1]]))
    return replace(builder.add_to(run, facts), facts=facts, has_private=builder.has_private)


async def extract_reflections(resources: Resources, identity: Identity, run: FormationRun) -> FormationRun:
    """Extract reflections and an episode, which repeat neither the context memory nor the facts of the run.

    Raises:
        ModelError: if the model fails, or its answer is useless after a repair.
    """
    if not resources.settings.overridden(run.overrides).always_in_context:
        return run
    run, builder = await _extract(resources, identity, run, EXTRACT_REFLECTIONS, MemoryBuilder.add_reflections)
    reflections = list(builder.memories.values())
    return replace(builder.add_to(run, reflections), reflections=reflections)


async def extract_observations(resources: Resources, identity: Identity, run: FormationRun) -> FormationRun:
    """Extract observations, which become reflections and take the place of facts and reflections.

    Raises:
        ModelError: if the model fails, or its answer is useless after a repair.
    """
    run, builder = await _extract(resources, identity, run, EXTRACT_OBSERVATIONS, MemoryBuilder.add_observations)
    observations = most_important(list(builder.memories.values()), run.max_facts)
    return replace(builder.add_to(run, observations), reflections=observations)


async def _extract(
    resources: Resources,
    identity: Identity,
    run: FormationRun,
    step: Step[ExtractionInput, Answer],
    add: Callable[[MemoryBuilder, Answer], None],
) -> tuple[FormationRun, MemoryBuilder]:
    """Run a step, with one repair of a useless answer; return the run with the usage, and the answer's memories.

    Args:
        resources: the open database and models.
        identity: identity of the run.
        run: the run so far.
        step: the step.
        add: method that adds the answer to a builder.
    """
    in_context = await _context_memory(resources, identity, run, step)
    step_input = _step_input(resources, identity, run, in_context)
    shown = "\n".join(message.text for message in step.messages(step_input))
    existing: list[Memory | NewMemory] = []
    for part in in_context:
        existing += [*part.texts, *part.facts]
    context = BuilderContext(
        resolver=scope_resolver(resources, identity, run),
        categories=resources.categories,
        prompt=step.prompt,
        shown=shown,
        existing=[*existing, *run.facts],
    )

    builders: dict[int, MemoryBuilder] = {}

    def build(answer: Answer) -> MemoryBuilder:
        builder = MemoryBuilder(context, answer.nothing_else, run.has_private)
        add(builder, answer)
        builder.refuse_unreadable(answer.unreadable)
        builders[id(answer)] = builder
        return builder

    running = run_step(step, step_input, resources.models, lambda answer: build(answer).issue())
    answer, usage = await track_usage(resources, identity, running)
    spent = spent_on(usage, resources.settings.model_prices)
    # the output of a rule was not checked, so it has no builder yet
    return replace(run, spent=[*run.spent, *spent]), builders.get(id(answer)) or build(answer)


async def _context_memory(
    resources: Resources, identity: Identity, run: FormationRun, step: Step[ExtractionInput, Answer]
) -> Sequence[ScopeContext]:
    """Return the context memory, which no new reflection repeats; a fact may repeat it."""
    if step.prompt is EXTRACT_FACTS.prompt:
        return ()
    if run.context is not None:
        return run.context
    async with resources.database.transaction(identity) as tx:
        return (await memories.read_context(tx, as_drafted=True)).scopes


def scope_resolver(resources: Resources, identity: Identity, run: FormationRun) -> ScopeResolver:
    """Return the rules of sharing for the messages of a run."""
    settings = resources.settings.overridden(run.overrides)
    groups, personal = group_names(identity, run.names), resources.categories.personal
    return ScopeResolver(run.batch, identity, groups, settings, personal)


def _step_input(
    resources: Resources, identity: Identity, run: FormationRun, in_context: Sequence[ScopeContext]
) -> ExtractionInput:
    """Return the input of a step.

    If other users speak than the run's own, the model does not read that user's context memory, which must not
    influence the memories of others.
    """
    settings = resources.settings.overridden(run.overrides)
    is_alone = set(speakers(run.batch)) <= {identity.user_id}
    parts: list[tuple[str, ScopeContext]] = []
    for part in in_context:
        if is_alone or part.scope != "user":
            name = run.names.get(part.scope_key) or display_name(split_scope_key(part.scope_key)[1])
            parts.append((name, part))
    return ExtractionInput(
        lines=_lines(run.batch),
        people=_people(run.batch, identity, run.names, settings),
        guidance=run.guidance,
        categories=resources.categories.offered,
        limit=run.max_facts,
        in_context=tuple(parts),
        language=settings.language or ExtractionInput.language,
    )


def _lines(batch: Sequence[Message]) -> tuple[Line, ...]:
    lines: list[Line] = []
    for number, message in enumerate(batch, start=1):
        lines.append(Line(number, message.author, message.role, message.said_at, message.content))
    return tuple(lines)


def _people(batch: Sequence[Message], identity: Identity, names: Mapping[str, str], settings: Settings) -> People:
    """Return the participants of a conversation, the users in the order in which they speak."""
    authors = {message.user_id: message.author for message in batch if message.user_id}
    members, groups = identity.may_speak_for("group"), identity.group_ids
    teaches = identity.teaches_agent or settings.share_with_agent == "open"
    users: list[Speaker] = []
    for user_id, author in authors.items():
        is_member = bool(groups) and user_id in members
        users.append(Speaker(author, is_member=is_member, teaches=teaches and user_id == identity.user_id))
    return People(
        agent=names.get(scope_key("agent", identity.agent_id)) or display_name(identity.agent_id),
        persona=settings.persona or "",
        speakers=tuple(users),
        groups=group_names(identity, names),
    )
