"""Formation: reflections, the widest scope first, and one episode."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from mnemic.models.steps import EXTRACT_REFLECTIONS
from mnemic.nodes.lines import group_name, numbered, speakers
from mnemic.nodes.perform import perform
from mnemic.nodes.resources import Provider
from mnemic.nodes.thoughts import Thoughts
from mnemic.nodes.typing import FormationNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import from_plain, to_plain
from mnemic.policy.names import display_name
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, StandingText
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Message, NewMemory, Standing
from mnemic.storage import memories


def extract_reflections(provide: Provider) -> FormationNode:
    """One slow call that sees what is already in context and the facts just decided on."""

    async def extract_reflections(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        if not resources.settings.overridden(state["overrides"]).always_in_context:
            return {"thoughts": []}
        batch = from_plain(Message, state["batch"])
        async with resources.database.scoped(identity) as scoped:
            standing = (await memories.standing(scoped)).scopes
        step_input = ExtractReflectionsInput(
            lines=numbered(batch),
            standing=tuple(_standing_text(part, state["names"]) for part in _showable(standing, batch, identity)),
            new_facts=tuple(row["content"] for row in state["facts"]),
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
        )
        output = await perform(resources, identity, EXTRACT_REFLECTIONS, step_input)
        known = {part.text for part in standing} | set(step_input.new_facts)
        thoughts = Thoughts(batch, identity, known)
        thoughts.add_reflections(output)
        thoughts.add_episode(output.episode, private=state["private"])
        return {"thoughts": to_plain(NewMemory, thoughts.memories.values()), "checks": dict(thoughts.checks)}

    return extract_reflections


def _showable(standing: Sequence[Standing], batch: Sequence[Message], identity: Identity) -> list[Standing]:
    """Where others speak than the run's own user, nobody's own memory may colour what is written for them."""
    is_own = {*speakers(batch)} <= {identity.user_id}
    return [part for part in standing if is_own or part.scope != "user"]


def _standing_text(part: Standing, names: dict[str, str]) -> StandingText:
    scope, owner = split_scope_key(part.scope_key)
    return StandingText(scope=scope, name=names.get(part.scope_key) or display_name(owner), text=part.text)
