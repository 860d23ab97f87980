"""Formation: reflections and one episode after the facts; or observations, in a single call in place of all three."""

from langgraph.runtime import Runtime

from mnemic.models.steps import EXTRACT_OBSERVATIONS, EXTRACT_REFLECTIONS
from mnemic.operations.formation.drafts import Drafts, crowded_out, run_drafting_step
from mnemic.operations.formation.reflection_builder import ReflectionBuilder, read_existing_context
from mnemic.operations.formation.scope_resolver import ScopeResolver
from mnemic.operations.formation.selection import Known, most_important
from mnemic.operations.messages.transcript import group_name, numbered
from mnemic.operations.run.graph import FormationNode
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.prompts.extract_observations import ExtractObservationsInput, ExtractObservationsOutput
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, ExtractReflectionsOutput
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity


def extract_reflections(provide: Provider) -> FormationNode:
    """One slow call that sees what is already in context and the facts just decided on; the widest scope first."""

    async def extract_reflections(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        if not resources.settings.overridden(state["overrides"]).always_in_context:
            return {"reflections": []}
        batch = state["batch"]
        context = await read_existing_context(resources, identity, batch, state["names"])
        step_input = ExtractReflectionsInput(
            lines=numbered(batch),
            standing=context.shown,
            new_facts=tuple(fact.content for fact in state["facts"]),
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
            categories=resources.categories.formed,
        )
        resolver = ScopeResolver(batch, identity, step_input.group)
        known = [*context.known, *map(Known.of, state["facts"])]

        def build(answer: ExtractReflectionsOutput, drafts: Drafts) -> ReflectionBuilder:
            builder = ReflectionBuilder(resolver, [*known], resources.categories, drafts)
            builder.add_reflections(answer)
            builder.add_episode(answer.episode, private=state["private"])
            return builder

        answer, drafts, builder = await run_drafting_step(
            resources, identity, EXTRACT_REFLECTIONS, step_input, build, len(batch)
        )
        return {
            "reflections": [*builder.memories.values()],
            "repeats": [*state["repeats"], *builder.repeats],
            **drafts.figures(),
            "account": drafts.account(state["account"], nothing_else=answer.nothing_else),
        }

    return extract_reflections


def extract_observations(provide: Provider) -> FormationNode:
    """One fast call that sees what is already in context; its observations become reflections."""

    async def extract_observations(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        batch = state["batch"]
        context = await read_existing_context(resources, identity, batch, state["names"])
        step_input = ExtractObservationsInput(
            lines=numbered(batch),
            standing=context.shown,
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
            max_observations=state["max_facts"],
            categories=resources.categories.formed,
        )
        resolver = ScopeResolver(batch, identity, step_input.group)

        def build(answer: ExtractObservationsOutput, drafts: Drafts) -> ReflectionBuilder:
            builder = ReflectionBuilder(resolver, [*context.known], resources.categories, drafts)
            builder.add_observations(answer)
            return builder

        answer, drafts, builder = await run_drafting_step(
            resources, identity, EXTRACT_OBSERVATIONS, step_input, build, len(batch)
        )
        drafted = [*builder.memories.values()]
        kept = most_important(drafted, state["max_facts"])
        account = drafts.account(state["account"], nothing_else=answer.nothing_else)
        return {
            "reflections": kept,
            "repeats": builder.repeats,
            **drafts.figures(),
            "account": crowded_out(account, drafted, kept),
        }

    return extract_observations
