"""Formation: reflections, the widest scope first, and one episode."""

from langgraph.runtime import Runtime

from mnemic.models.answers import Flaw
from mnemic.models.steps import EXTRACT_REFLECTIONS
from mnemic.operations.formation.drafts import Drafts
from mnemic.operations.formation.existing_context import read_in_mind
from mnemic.operations.formation.reflection_builder import Thoughts
from mnemic.operations.formation.repeats import Known
from mnemic.operations.formation.scope_resolver import Places
from mnemic.operations.messages.speakers import group_name, numbered
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.model_step import perform
from mnemic.operations.run.node_types import FormationNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, ExtractReflectionsOutput
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import Message, NewMemory


def extract_reflections(provide: Provider) -> FormationNode:
    """One slow call that sees what is already in context and the facts just decided on."""

    async def extract_reflections(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        if not resources.settings.overridden(state["overrides"]).always_in_context:
            return {"thoughts": []}
        batch = from_plain(Message, state["batch"])
        in_mind = await read_in_mind(resources, identity, batch, state["names"])
        step_input = ExtractReflectionsInput(
            lines=numbered(batch),
            standing=in_mind.shown,
            new_facts=tuple(row["content"] for row in state["facts"]),
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
            categories=resources.categories.formed,
        )
        known = [*in_mind.known, *map(Known.of, from_plain(NewMemory, state["facts"]))]
        places = Places(batch, identity, step_input.group)

        def drafted(answer: ExtractReflectionsOutput) -> Thoughts:
            drafts = Drafts(EXTRACT_REFLECTIONS.prompt, len(batch))
            thoughts = Thoughts(places, [*known], resources.categories, drafts)
            thoughts.add_reflections(answer)
            thoughts.add_episode(answer.episode, private=state["private"])
            return thoughts

        def check(answer: ExtractReflectionsOutput) -> Flaw | None:
            return drafted(answer).drafts.flaw(answer.nothing_else)

        output = await perform(resources, identity, EXTRACT_REFLECTIONS, step_input, check)
        thoughts = drafted(output)
        return {
            "thoughts": to_plain(NewMemory, thoughts.memories.values()),
            "repeats": [*state.get("repeats", []), *thoughts.repeats],
            **thoughts.drafts.figures(),
            "account": thoughts.drafts.account(output.nothing_else, state["account"]),
        }

    return extract_reflections
