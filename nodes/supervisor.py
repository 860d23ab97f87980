"""Nodes of the supervisor: recall, answer, request consent, run the calls, and observe."""

from collections.abc import Sequence

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from mnemic.memory.explicit.consent import consent_questions
from mnemic.memory.messages import supervisor
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.state.identity import SUPERVISOR, Identity
from mnemic.state.supervisor import Consent, SupervisorState


async def recall(state: SupervisorState, resources: Resources, runtime: Runtime[Identity]) -> SupervisorState:
    """Recall for the user's message, and store it at the same time."""
    runtime.stream_writer({"step": "recall"})
    return await supervisor.recall_for_turn(resources, _identity(runtime), state["messages"])


async def answer(
    state: SupervisorState,
    resources: Resources,
    runtime: Runtime[Identity],
    tools: Sequence[BaseTool],
) -> SupervisorState:
    """Return the agent's next message, and the questions of consent to its calls."""
    runtime.stream_writer({"step": "answer"})
    identity = _identity(runtime)
    message, memory = await supervisor.answer(resources, identity, tools, state)
    questions = await consent_questions(resources, identity, message)
    return {"messages": [message], "questions": questions, **memory}


async def confirm(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
    """Interrupt the turn for consent. No call has run yet, so none runs twice.

    A reply that is no `Consent` leaves the question open.
    """
    consent = interrupt(supervisor.consent_request(state["questions"]), response_schema=Consent)
    runtime.stream_writer({"step": "confirm"})
    if consent.approved:
        return {"declined": []}
    return {"declined": list(state["questions"])}


async def use_tools(state: SupervisorState, runtime: Runtime[Identity], node: ToolNode) -> SupervisorState:
    """Run the calls in parallel, except declined ones."""
    wanted, declined = supervisor.split_calls(state)
    # names only: the arguments of calls are not streamed
    names = [call["name"] for call in wanted if call["name"] in node.tools_by_name]
    runtime.stream_writer({"step": "tools", "tools": names})
    return await supervisor.run_calls(node, state, wanted, declined)


async def observe(state: SupervisorState, resources: Resources, runtime: Runtime[Identity]) -> SupervisorState:
    """Store the turn and start due formations."""
    runtime.stream_writer({"step": "observe"})
    await supervisor.observe(resources, _identity(runtime), state)
    return {}


def _identity(runtime: Runtime[Identity]) -> Identity:
    """Return the identity of a turn, in the supervisor's role."""
    return identity_of(runtime, in_turn=True).model_copy(update={"role": SUPERVISOR})
