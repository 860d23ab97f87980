"""Formation: extraction in a single call, in place of facts, decisions and reflections."""

from langgraph.runtime import Runtime

from mnemic.models.answers import Flaw
from mnemic.models.steps import EXTRACT_OBSERVATIONS
from mnemic.operations.formation.drafts import Drafts, crowded_out
from mnemic.operations.formation.existing_context import read_in_mind
from mnemic.operations.formation.reflection_builder import Thoughts
from mnemic.operations.formation.relations import most_important
from mnemic.operations.formation.scope_resolver import Places
from mnemic.operations.messages.speakers import group_name, numbered
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.model_step import perform
from mnemic.operations.run.node_types import FormationNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.prompts.extract_observations import ExtractObservationsInput, ExtractObservationsOutput
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import Message, NewMemory


def extract_observations(provide: Provider) -> FormationNode:
    """One fast call that sees what is already in context; its observations become reflections."""

    async def extract_observations(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        batch = from_plain(Message, state["batch"])
        in_mind = await read_in_mind(resources, identity, batch, state["names"])
        step_input = ExtractObservationsInput(
            lines=numbered(batch),
            standing=in_mind.shown,
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
            max_observations=state["max_facts"],
            categories=resources.categories.formed,
        )
        places = Places(batch, identity, step_input.group)

        def drafted(answer: ExtractObservationsOutput) -> Thoughts:
            drafts = Drafts(EXTRACT_OBSERVATIONS.prompt, len(batch))
            thoughts = Thoughts(places, [*in_mind.known], resources.categories, drafts)
            thoughts.add_observations(answer)
            return thoughts

        def check(answer: ExtractObservationsOutput) -> Flaw | None:
            return drafted(answer).drafts.flaw(answer.nothing_else)

        output = await perform(resources, identity, EXTRACT_OBSERVATIONS, step_input, check)
        thoughts = drafted(output)
        kept = most_important([*thoughts.memories.values()], state["max_facts"])
        drafts = thoughts.drafts
        return {
            "facts": [],
            "thoughts": to_plain(NewMemory, kept),
            "repeats": thoughts.repeats,
            **drafts.figures(),
            "account": crowded_out(drafts.account(output.nothing_else), thoughts.memories.values(), kept),
        }

    return extract_observations
