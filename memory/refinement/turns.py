"""One turn of a refinement: the model's next calls, and their answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.tools import BaseTool

from mnemic.memory.refinement.session import RefinementSession
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.answers import spent_on
from mnemic.models.tool_calls import run_turn
from mnemic.prompts.refinement.refine import RefineInput
from mnemic.prompts.refinement.tools import COMPLETE, ENDED
from mnemic.prompts.tool_calls import UNREADABLE_CALL, not_carried_out, unknown_tool
from mnemic.state.graphs import StepUsage
from mnemic.state.identity import split_scope_key
from mnemic.state.refinement import MAX_CALLS, Batch, Ended, RefinementState, ToolCall, Turn
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.refinements import Progress
from mnemic.storage.transaction import ScopedTransaction


class _Answer(NamedTuple):
    """The answer to a call."""

    text: str
    is_refused: bool


async def take_turn(session: RefinementSession, state: RefinementState, tools: Sequence[BaseTool]) -> RefinementState:
    """Show the batch and its calls so far to the model, and take its next calls.

    The turn is counted before the model is called, so that a turn that always breaks off ends too. A turn without calls
    selects the next batch. No connection is held during the model's call.
    """
    progress = await _count_turn(session)
    ending = _limit_reached(progress, session.settings)
    if ending:
        return {"ending": ending}
    # the batch as it was at its beginning, so that earlier answers stay true
    batch = state["current_batch"] if state["turns"] else await _begin_batch(session, state, progress)
    turn, spent = await _next_turn(session, _step_input(session, state, batch), tools)
    update: RefinementState = {"by_number": session.by_number}
    if spent:
        update["spent"] = spent
    if turn.calls:
        return {**update, "current_batch": batch, "turns": [*state["turns"], turn]}
    if state["batch"] >= len(state["batches"]):
        return {**update, "turns": [], "ending": "finished"}
    return {**update, "turns": [], "batch": state["batch"] + 1}


async def _count_turn(session: RefinementSession) -> Progress:
    async def count(tx: ScopedTransaction) -> Progress:
        return await refinements.begin_step(tx, session.claim, session.settings)

    return await session.transact(count)


def _limit_reached(progress: Progress, settings: Settings) -> Ended | None:
    if progress.steps > settings.refinement_steps:
        return "steps"
    if progress.model_tokens >= settings.refinement_model_tokens:
        return "tokens"
    if progress.seconds > settings.refinement_minutes * 60:
        return "time"
    return None


async def _begin_batch(session: RefinementSession, state: RefinementState, progress: Progress) -> Batch:
    return await session.begin_batch(state["batches"][state["batch"] - 1], progress)


async def _next_turn(
    session: RefinementSession, step_input: RefineInput, tools: Sequence[BaseTool]
) -> tuple[Turn, list[StepUsage]]:
    """Return the model's turn and its usage, and add its tokens to the session's row."""
    models = session.resources.models.with_settings(session.settings)
    turn, usage = await track_usage(session.resources, session.identity, run_turn(step_input, tools, models))
    tokens = usage.input_tokens + usage.output_tokens

    async def count(tx: ScopedTransaction) -> Progress:
        return await refinements.add_progress(tx, session.claim, tokens=tokens)

    if tokens:
        await session.transact(count)
    return turn, spent_on(usage, session.settings.model_prices)


def _step_input(session: RefinementSession, state: RefinementState, batch: Batch) -> RefineInput:
    scope, owner = split_scope_key(session.scope_key)
    return RefineInput(
        agent=session.identity.agent_id,
        persona=session.settings.persona or "",
        today=session.resources.today(session.resources.zone_of(session.identity)),
        scope=scope,
        owner=owner,
        budget=batch.budget,
        batch=state["batch"],
        batches=len(state["batches"]),
        ledger=batch.ledger,
        turns=tuple(state["turns"]),
    )


async def call_tools(
    session: RefinementSession,
    turns: Sequence[Turn],
    tools: Sequence[BaseTool],
    report: Callable[[dict[str, Any]], None],
) -> RefinementState:
    """Run the calls of the last turn one after the other, each as an operation. A refusal is an answer too.

    Calls beyond the limit get an answer that names the limit.

    Args:
        session: of the turn.
        turns: turns of the batch, of which only the last one has no answers.
        tools: of the session.
        report: gets the progress for a host that streams the graph, without contents.
    """
    by_name = {tool.name: tool for tool in tools}
    *earlier, turn = turns
    answered: list[ToolCall] = []
    ending: Ended | None = None
    for position, call in enumerate(turn.calls):
        answer = _Answer(not_carried_out(MAX_CALLS), is_refused=True)
        if position < MAX_CALLS:
            answer = await _answer(call, by_name)
        if call.name == COMPLETE and answer.text == ENDED:
            ending = "completed"
        answered.append(call._replace(answer=answer.text))
        report({"refinement": str(session.claim.id), "tool": call.name, "refused": answer.is_refused})
    return {
        "turns": [*earlier, turn._replace(calls=tuple(answered))],
        "by_number": session.by_number,
        "reported_losses": session.reported_losses,
        "ending": ending,
    }


async def _answer(call: ToolCall, tools: Mapping[str, BaseTool]) -> _Answer:
    if call.arguments is None:
        return _Answer(UNREADABLE_CALL, is_refused=True)
    if call.name not in tools:
        return _Answer(unknown_tool(tools), is_refused=True)
    request = {"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)}
    message = await tools[call.name].ainvoke(request)
    return _Answer(str(message.content), is_refused=message.status == "error")
