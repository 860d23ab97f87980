"""Nodes of the refinement graph: open a session, let its agent take turns and call tools, and close it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.memory.refinement.edits import finish
from mnemic.memory.refinement.session import RefinementSession, first_batches, open_session
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.leases import holder_of, release_lease_on_error
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.prices import spent_on
from mnemic.models.tool_calls import run_turn
from mnemic.prompts.refine import COMPLETING, ENDED, RefineInput
from mnemic.prompts.tools import UNREADABLE_CALL, not_carried_out, unknown_tool
from mnemic.state.checking import validate
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.refinement import (
    MAX_CALLS,
    Batch,
    Ended,
    RefinementInput,
    RefinementResult,
    RefinementState,
    ToolCall,
)
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.refinements import Claim, Progress

#: Makes the tools of one session.
ToolFactory = Callable[[RefinementSession], Sequence[BaseTool]]


async def open_refinement(state: RefinementState, resources: Resources, runtime: Runtime[Identity]) -> RefinementState:
    """Begin or resume the session of the scope key if it is due; a dry run only counts the work."""
    identity = identity_of(runtime)
    request = validate(RefinementInput, state)
    key = request.get("scope_key") or scope_key("agent", identity.agent_id)
    forced, dry_run = request.get("force", False), request.get("dry_run", False)
    lease = Lease(work="refinement", scope_key=key, holder=holder_of(runtime))
    async with release_lease_on_error(resources, identity, lease):
        found, session = await open_session(resources, identity, lease, forced=forced, dry_run=dry_run)
        if session is None:  # remove the channels of an earlier run on the same thread
            stale: dict[str, Any] = dict.fromkeys(RefinementResult.__annotations__.keys() & state.keys())
            return cast(RefinementState, {**stale, **found, "ending": None, "batches": []})
        batches = await first_batches(session)
    return {
        "scope_key": key,
        "refinement_id": str(session.claim.id),
        "resumed": found["resumed"],
        "lease": lease,
        "overrides": session.overrides,
        "handles": {},  # a memory has its number once it is shown
        "told": [],
        "spent": [],
        "batches": batches,
        "batch": 1,
        "turns": [],
        "ending": None if batches else "finished",  # all memories may be gone when a session is resumed
    }


def refinement_session(resources: Resources, state: RefinementState, runtime: Runtime[Identity]) -> RefinementSession:
    """Return the session of this run."""
    return RefinementSession(
        resources=resources,
        overrides=state["overrides"],
        identity=identity_of(runtime),
        claim=Claim(UUID(state["refinement_id"] or ""), state["lease"]),
        shown=dict(state["handles"]),
        told=list(state["told"]),
    )


async def take_turn(
    state: RefinementState, resources: Resources, runtime: Runtime[Identity], make_tools: ToolFactory
) -> RefinementState:
    """Show the batch and its calls so far to the model, and take its next calls. The turn is counted first.

    Without calls the next batch follows. No connection is held meanwhile.
    """
    session = refinement_session(resources, state, runtime)
    progress = await session.transact(lambda scoped: refinements.step(scoped, session.claim, session.settings))
    if ending := _limit(progress, session.settings):
        return {"ending": ending}
    turns = state["turns"]
    ids = state["batches"][state["batch"] - 1]
    # the batch as it was at its beginning, so that earlier results stay true
    shown = state["shown"] if turns else await session.begin_batch(ids, progress)
    models = session.resources.models.with_settings(session.settings)
    running = run_turn(_input(session, state, shown), make_tools(session), models)
    turn, spent = await track_usage(session.resources, session.identity, running)
    told = spent_on(spent, session.settings.model_prices)
    used: RefinementState = {"spent": told} if told else {}
    tokens = spent.input_tokens + spent.output_tokens
    if tokens:
        await session.transact(lambda scoped: refinements.count(scoped, session.claim, tokens=tokens))
    if turn.calls:
        return {"shown": shown, "turns": [*turns, turn], "handles": session.shown, **used}
    if state["batch"] >= len(state["batches"]):
        return {"ending": "finished", "turns": [], **used}
    return {"batch": state["batch"] + 1, "turns": [], "handles": session.shown, **used}


def _limit(progress: Progress, settings: Settings) -> Ended | None:
    if progress.steps > settings.refinement_steps:
        return "steps"
    if progress.model_tokens >= settings.refinement_model_tokens:
        return "tokens"
    return "time" if progress.seconds > settings.refinement_minutes * 60 else None


def _input(session: RefinementSession, state: RefinementState, shown: Batch) -> RefineInput:
    scope, owner = split_scope_key(session.claim.lease.scope_key)
    return RefineInput(
        agent=session.identity.agent_id,
        persona=session.settings.persona or "",
        today=session.resources.today(session.resources.zone_of(session.identity)),
        scope=scope,
        owner=owner,
        budget=shown.budget,
        batch=state["batch"],
        batches=len(state["batches"]),
        ledger=shown.ledger,
        turns=tuple(state["turns"]),
    )


async def call_tools(
    state: RefinementState, resources: Resources, runtime: Runtime[Identity], make_tools: ToolFactory
) -> RefinementState:
    """Run the calls of a turn one after the other, each as an operation; a refusal is a result too.

    Calls beyond the limit get a result that names the limit.
    """
    session = refinement_session(resources, state, runtime)
    tools = {tool.name: tool for tool in make_tools(session)}
    *earlier, turn = state["turns"]
    answered: list[ToolCall] = []
    is_over = False
    for place, call in enumerate(turn.calls):
        answer, is_refused = (not_carried_out(MAX_CALLS), True) if place >= MAX_CALLS else await _answer(call, tools)
        is_over = is_over or (call.name == COMPLETING and answer == ENDED)
        answered.append(call._replace(answer=answer))
        # progress for a host that streams the graph, without contents
        runtime.stream_writer({"refinement": str(session.claim.id), "tool": call.name, "refused": is_refused})
    return {
        "turns": [*earlier, turn._replace(calls=tuple(answered))],
        "handles": session.shown,
        "told": session.told,
        "ending": "completed" if is_over else None,
    }


async def _answer(call: ToolCall, tools: Mapping[str, BaseTool]) -> tuple[str, bool]:
    """Return the result of a call, and whether it was refused."""
    if call.arguments is None:
        return UNREADABLE_CALL, True
    if call.name not in tools:
        return unknown_tool(tools), True
    request = {"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)}
    message = await tools[call.name].ainvoke(request)
    return str(message.content), message.status == "error"


async def close_refinement(state: RefinementState, resources: Resources, runtime: Runtime[Identity]) -> RefinementState:
    """End a session that ran into a limit or out of calls, with the figures of its row."""
    session = refinement_session(resources, state, runtime)
    ending = state["ending"]
    if ending is not None and ending != "completed":
        await finish(session, ending)
    (row,) = await session.transact(lambda scoped: refinements.listed(scoped, None, refinement_id=session.claim.id))
    for op, count in (("merge", row.merged), ("update", row.updated), ("delete", row.deleted)):
        resources.events.note_count(session.identity, ("refinement", op), count)
    return {**row.as_result(), "resumed": state["resumed"]}
