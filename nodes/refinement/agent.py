"""Refinement: one turn of the agent, counted before the model is asked; no connection waits for the answer."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from mnemic.models.steps import REFINE
from mnemic.operations.refinement.session import KnifeFactory, Refining, refining_of
from mnemic.operations.run.model_step import perform_turn
from mnemic.operations.run.node_types import RefinementNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.policy.text.names import display_name
from mnemic.prompts.refine import RefineInput
from mnemic.state.graphs import RefinementState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.refinement import Budget, Ended, LedgerEntry, Turn
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.database import Scoped
from mnemic.storage.refinements import Progress


def take_turn(provide: Provider, make_knife: KnifeFactory) -> RefinementNode:
    """Shows the batch with what was done in it, and takes the agent's next calls; none of them: the next batch."""

    async def take_turn(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        refining = await refining_of(provide, state, runtime)
        seconds = refining.settings.lease_seconds
        progress = await refining.write(lambda scoped: refinements.step(scoped, refining.claim, seconds=seconds))
        if ending := _limit(progress, refining.settings):
            return {"ending": ending}
        shown, budget = await _shown(refining, state, progress)
        turns = from_plain(Turn, state["turns"])
        asked = _asked(refining, state, shown, budget, turns)
        models = refining.resources.models.with_settings(refining.settings)
        turn, tokens = await perform_turn(
            refining.resources, refining.identity, REFINE, asked, turns, make_knife(refining), models
        )

        async def spend(scoped: Scoped) -> None:
            await refinements.spend(scoped, refining.claim, tokens)

        if tokens:
            await refining.write(spend)
        if not turn.calls:
            return {**_next_batch(state), "handles": refining.handles.to_plain()}
        return {
            "shown": to_plain(LedgerEntry, shown),
            "budget": tuple(budget),
            "turns": to_plain(Turn, [*turns, turn]),
            "handles": refining.handles.to_plain(),
        }

    return take_turn


def _limit(progress: Progress, settings: Settings) -> Ended | None:
    if progress.steps > settings.refinement_steps:
        return "steps"
    if progress.model_tokens >= settings.refinement_model_tokens:
        return "tokens"
    return "time" if progress.seconds > settings.refinement_minutes * 60 else None


async def _shown(refining: Refining, state: RefinementState, progress: Progress) -> tuple[list[LedgerEntry], Budget]:
    """The batch as it was when it began, so that what was said of it stays true; read anew where it begins."""
    if state["turns"]:
        return from_plain(LedgerEntry, state["shown"]), Budget(*state["budget"])
    entries = await refining.read(refinements.ledger)
    wanted = set(state["batches"][state["batch"] - 1])
    return (
        refining.handles.numbered(entry for entry in entries if str(entry.id) in wanted),
        refining.budget(entries, progress),
    )


def _asked(
    refining: Refining, state: RefinementState, shown: Sequence[LedgerEntry], budget: Budget, turns: Sequence[Turn]
) -> RefineInput:
    scope, owner = split_scope_key(refining.claim.scope_key)
    return RefineInput(
        persona=refining.settings.persona or "",
        scope=scope,
        owner=display_name(owner),
        budget=budget,
        batch=state["batch"],
        batches=len(state["batches"]),
        ledger=tuple(shown),
        turns=tuple(turns),
    )


def _next_batch(state: RefinementState) -> RefinementState:
    if state["batch"] >= len(state["batches"]):
        return {"ending": "finished", "turns": []}
    return {"batch": state["batch"] + 1, "turns": [], "shown": []}
