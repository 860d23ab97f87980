"""Formation: facts, then reflections and one episode; or observations, in a single call in place of all of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from langgraph.runtime import Runtime

from mnemic.models.structured import run_step
from mnemic.operations.formation.builder import MemoryBuilder
from mnemic.operations.formation.drafts import Drafts, ScopeResolver, crowded_out
from mnemic.operations.formation.selection import most_important
from mnemic.operations.messages.transcript import group_name, numbered, only_speaks
from mnemic.operations.run.graph import metered
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Resources
from mnemic.policy.text.shape import display_name
from mnemic.prompts.extraction import (
    EXTRACT_FACTS,
    EXTRACT_OBSERVATIONS,
    EXTRACT_REFLECTIONS,
    ExtractFactsOutput,
    ExtractionInput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
    StandingText,
)
from mnemic.prompts.loader import In, Step
from mnemic.prompts.repair import Flaw
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Memory, Message, NewMemory, Standing
from mnemic.storage import memories

Answer = TypeVar("Answer", ExtractFactsOutput, ExtractReflectionsOutput, ExtractObservationsOutput)


async def extract_facts(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """One fast call; every text passes the validator, every owner comes from the messages it cites."""
    if not resources.settings.overridden(state["overrides"]).rag:
        return {"facts": []}
    run = _Extraction(resources, identity_of(runtime), state)
    step_input = ExtractionInput(
        lines=numbered(state["batch"]),
        group=run.group,
        guidance=state["guidance"],
        limit=state["max_facts"],
        categories=resources.categories.formed,
    )
    answer, builder = await run.ask(EXTRACT_FACTS, step_input, MemoryBuilder.add_facts)
    kept, update = run.kept(builder, answer.nothing_else)
    places = {message.id: place for place, message in enumerate(state["batch"])}
    kept.sort(key=lambda fact: (fact.valid_from, places[fact.source_message_ids[-1]]))
    return {"facts": kept, "private": any(draft.private for draft in answer.facts), **update}


async def extract_reflections(
    state: FormationState, resources: Resources, runtime: Runtime[Identity]
) -> FormationState:
    """One slow call that sees what is already in context and the facts just decided on; the widest scope first."""
    if not resources.settings.overridden(state["overrides"]).always_in_context:
        return {"reflections": []}
    run = _Extraction(resources, identity_of(runtime), state)
    known, shown = await run.context()
    step_input = ExtractionInput(
        lines=numbered(state["batch"]),
        standing=shown,
        limit=state["max_facts"],
        new_facts=tuple(fact.content for fact in state["facts"]),
        group=run.group,
        guidance=state["guidance"],
        categories=resources.categories.formed,
    )

    def add(builder: MemoryBuilder, answer: ExtractReflectionsOutput) -> None:
        builder.add_reflections(answer)
        builder.add_episode(answer.episode, private=state["private"])

    answer, builder = await run.ask(EXTRACT_REFLECTIONS, step_input, add, known=[*known, *state["facts"]])
    return {
        "reflections": [*builder.memories.values()],
        "repeats": [*state["repeats"], *builder.repeats],
        **builder.drafts.figures(),
        "account": builder.drafts.account(state["account"], nothing_else=answer.nothing_else),
    }


async def extract_observations(
    state: FormationState, resources: Resources, runtime: Runtime[Identity]
) -> FormationState:
    """One fast call that sees what is already in context; its observations become reflections."""
    run = _Extraction(resources, identity_of(runtime), state)
    known, shown = await run.context()
    step_input = ExtractionInput(
        lines=numbered(state["batch"]),
        standing=shown,
        group=run.group,
        guidance=state["guidance"],
        limit=state["max_facts"],
        categories=resources.categories.formed,
    )
    answer, builder = await run.ask(EXTRACT_OBSERVATIONS, step_input, MemoryBuilder.add_observations, known=known)
    kept, update = run.kept(builder, answer.nothing_else)
    return {"reflections": kept, "repeats": builder.repeats, **update}


class _Extraction(NamedTuple):
    """A step that drafts memories, in one run."""

    resources: Resources
    identity: Identity
    state: FormationState

    @property
    def group(self) -> str | None:
        """The display name of the run's one group."""
        return group_name(self.identity, self.state["names"])

    async def context(self) -> tuple[list[Memory | NewMemory], tuple[StandingText, ...]]:
        """What is in context: all of it, to compare with, for what is not shown is not stored twice either; and what
        the step may see, so that it repeats nothing.

        Where others speak than the run's own user, nobody's own memory may colour what is written for them.
        """
        async with self.resources.database.scoped(self.identity) as scoped:
            standing = (await memories.standing(scoped)).scopes
        is_own = only_speaks(self.state["batch"], self.identity.user_id)
        shown = (part for part in standing if is_own or part.scope != "user")
        return (
            [memory for part in standing for memory in [*part.texts, *part.facts]],
            tuple(_standing_text(part, self.state["names"]) for part in shown),
        )

    async def ask(
        self,
        step: Step[In, Answer],
        step_input: In,
        add: Callable[[MemoryBuilder, Answer], None],
        known: Sequence[Memory | NewMemory] = (),
    ) -> tuple[Answer, MemoryBuilder]:
        """The step's answer, and the memories that were made of it; a useless answer is repaired once.

        Args:
            add: gives the answer's drafts to the builder.
            known: what no reflection is to say again.

        Raises:
            ModelError: as `run_step`.
        """
        batch: Sequence[Message] = self.state["batch"]
        resolver = ScopeResolver(batch, self.identity, self.group)

        def built(answer: Answer) -> MemoryBuilder:
            drafts = Drafts(step.prompt, len(batch))
            builder = MemoryBuilder(resolver, self.resources.categories, drafts, [*known])
            add(builder, answer)
            return builder

        def check(answer: Answer) -> Flaw | None:
            return built(answer).drafts.flaw(answer.nothing_else)

        asking = run_step(step, step_input, self.resources.models, check)
        answer = (await metered(self.resources, self.identity, asking)).output
        return answer, built(answer)

    def kept(self, builder: MemoryBuilder, nothing_else: bool) -> tuple[list[NewMemory], FormationState]:
        """As many memories as the run may bring, and what the channels tell of the drafts."""
        drafted = [*builder.memories.values()]
        kept = most_important(drafted, self.state["max_facts"])
        account = builder.drafts.account(self.state["account"], nothing_else=nothing_else)
        return kept, {**builder.drafts.figures(), "account": crowded_out(account, drafted, kept)}


def _standing_text(part: Standing, names: Mapping[str, str]) -> StandingText:
    scope, owner = split_scope_key(part.scope_key)
    return StandingText(scope=scope, name=names.get(part.scope_key) or display_name(owner), text=part.text)
