"""Refinement: one turn of the agent, counted before the model is asked; no connection waits for the answer."""

from langgraph.runtime import Runtime

from mnemic.models.steps import REFINE
from mnemic.models.tool_calls import run_turn
from mnemic.operations.refinement.session import RefinementSession, ToolFactory, refinement_session
from mnemic.operations.run.graph import RefinementNode, metered
from mnemic.operations.run.resources import Provider
from mnemic.policy.text.names import display_name
from mnemic.prompts.refine import RefineInput
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.refinement import Batch, Ended, RefinementState
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.refinements import Progress
from mnemic.storage.transaction import ScopedTransaction


def take_turn(provide: Provider, make_tools: ToolFactory) -> RefinementNode:
    """Shows the batch with what was done in it, and takes the agent's next calls; none of them: the next batch."""

    async def take_turn(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        session = await refinement_session(provide, state, runtime)
        progress = await session.write(lambda scoped: refinements.step(scoped, session.claim, session.settings))
        if ending := _limit(progress, session.settings):
            return {"ending": ending}
        turns = state["turns"]
        # as it was when it began, so that what was said of it stays true
        shown = state["shown"] if turns else await _begin_batch(session, state, progress)
        models = session.resources.models.with_settings(session.settings)
        running = run_turn(REFINE, _input(session, state, shown), turns, make_tools(session), models)
        turn, used = await metered(session.resources, session.identity, running)
        tokens = used.input_tokens + used.output_tokens

        async def spend(scoped: ScopedTransaction) -> None:
            await refinements.spend(scoped, session.claim, tokens)

        if tokens:
            await session.write(spend)
        if turn.calls:
            return {"shown": shown, "turns": [*turns, turn], "handles": session.handles}
        if state["batch"] >= len(state["batches"]):
            return {"ending": "finished", "turns": []}
        return {"batch": state["batch"] + 1, "turns": [], "handles": session.handles}

    return take_turn


def _limit(progress: Progress, settings: Settings) -> Ended | None:
    if progress.steps > settings.refinement_steps:
        return "steps"
    if progress.model_tokens >= settings.refinement_model_tokens:
        return "tokens"
    return "time" if progress.seconds > settings.refinement_minutes * 60 else None


async def _begin_batch(session: RefinementSession, state: RefinementState, progress: Progress) -> Batch:
    entries = await session.read(refinements.ledger)
    wanted = set(state["batches"][state["batch"] - 1])
    ledger = session.handles.number(entry for entry in entries if str(entry.id) in wanted)
    return Batch(tuple(ledger), session.budget(entries, progress))


def _input(session: RefinementSession, state: RefinementState, shown: Batch) -> RefineInput:
    scope, owner = split_scope_key(session.claim.scope_key)
    return RefineInput(
        persona=session.settings.persona or "",
        scope=scope,
        owner=display_name(owner),
        budget=shown.budget,
        batch=state["batch"],
        batches=len(state["batches"]),
        ledger=shown.ledger,
        turns=tuple(state["turns"]),
    )
