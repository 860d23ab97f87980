"""Memory for agents that are made by LangChain's `create_agent`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ModelCallResult, OmitFromInput, PrivateStateAttr
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool
from langgraph.channels import UntrackedValue
from langgraph.runtime import Runtime
from langgraph.types import Command

from mnemic.memory.messages.incoming import require_speaker
from mnemic.memory.messages.turn import RecallOptions, begin_turn, form_later, observe_turn, recall_turn, store_turn
from mnemic.memory.runtime.identity import identity_of, session_of
from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.memory.runtime.tracing import WITHOUT_CONTENTS
from mnemic.prompts.recall.request import with_memory
from mnemic.state.graphs import MemoryContext
from mnemic.state.identity import Identity
from mnemic.state.supervisor import MemoryState

#: Channel of this turn's recall. No checkpoint holds it, so an interrupt loses it.
_CONTEXT: Final = "memory_context"


class MemoryAgentState(AgentState[Any]):
    """A `MemoryState` for `create_agent`: callers do not set these channels, and the context is no output."""

    memory_context: NotRequired[Annotated[MemoryContext, UntrackedValue, PrivateStateAttr]]
    memory_revision: NotRequired[Annotated[int | None, PrivateStateAttr]]
    memory_searched: NotRequired[Annotated[str | None, OmitFromInput]]


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    """Options of the memory of a turn."""

    #: False for a subagent, whose user is another model.
    observe: bool = True
    #: Whether a turn starts the formation of due messages.
    form: bool = True
    #: Whether a message may name another speaker.
    several_speakers: bool = False


class MemoryMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Memory of an agent: it recalls and stores before the turn, brings the tools, and observes after the turn.

    The always-in-context part follows the host's own system prompt. The part of the turn precedes the user's message.
    Both are in the request only: no message of the thread and no checkpoint holds them. They stay the same through all
    model calls of a turn. `Mnemic.middleware` creates one.
    """

    state_schema = MemoryAgentState

    def __init__(
        self,
        resources: Resources,
        tools: Sequence[BaseTool],
        recall: RecallOptions,
        turn: TurnOptions,
    ) -> None:
        super().__init__()
        self.tools = tools
        if not resources.settings.trace_contents:
            self.trace_policy = WITHOUT_CONTENTS
        self._resources = resources
        self._recall = recall
        self._turn = turn
        self._provide = Provider.of(resources)

    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Recall for the last message of the user, and store the thread's messages meanwhile.

        Both happen here, because a host's retry of a model call does not repeat this hook, and because another
        middleware may remove the message from the thread before the turn ends.

        Raises:
            MissingIdentityError: if the run's context has no agent or no user.
            InvalidInputError: if an id cannot be used, or there is no session to observe.
        """
        return await self._provide.run_async(lambda: self._begin(state, runtime))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelCallResult[Any]:
        """Add the context to the request; after an interrupt, recall it again."""
        recalled = None
        if _CONTEXT not in request.state:
            recalled = await self._provide.run_async(lambda: self._recalled(request.state, request.runtime))
        return _with_update(await handler(_with_context(request, recalled)), recalled)

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> None:
        """Store the turn, and start the formation of due messages."""
        await self._provide.run_async(lambda: self._end(state, runtime))

    # The same for an agent that is invoked synchronously.

    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do the same as `abefore_agent`.

        Raises:
            BlockedLoopError: if the agent is invoked on the thread of the event loop that opened Mnemic.
        """
        return self._provide.run(lambda: self._begin(state, runtime))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelCallResult[Any]:
        """Do the same as `awrap_model_call`."""
        recalled = None
        if _CONTEXT not in request.state:
            recalled = self._provide.run(lambda: self._recalled(request.state, request.runtime))
        return _with_update(handler(_with_context(request, recalled)), recalled)

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> None:
        """Do the same as `aafter_agent`."""
        self._provide.run(lambda: self._end(state, runtime))

    async def _begin(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        if not self._turn.observe:
            return {**await self._recalled(state, runtime)}
        identity, messages = self._identity(runtime), state["messages"]
        # a host's mistake is raised before a model call is paid for
        session_of(identity)
        require_speaker(messages, identity, several_speakers=self._turn.several_speakers)
        storing = store_turn(self._resources, identity, messages, several_speakers=self._turn.several_speakers)
        return {**await begin_turn(self._recalled(state, runtime), storing)}

    async def _end(self, state: MemoryAgentState, runtime: Runtime[Any]) -> None:
        if not self._turn.observe:
            return
        identity, revision = self._identity(runtime), state.get("memory_revision")
        messages = state["messages"]
        await observe_turn(
            self._resources, identity, messages, revision=revision, several_speakers=self._turn.several_speakers
        )
        if self._turn.form:
            form_later(self._resources, identity)

    async def _recalled(self, state: AgentState[Any], runtime: Runtime[Any]) -> MemoryState:
        identity = self._identity(runtime)
        return await recall_turn(self._resources, identity, state["messages"], self._recall)

    def _identity(self, runtime: Runtime[Any]) -> Identity:
        return self._recall.in_role(identity_of(runtime))


def _with_update(response: ModelResponse[Any], recalled: MemoryState | None) -> ModelCallResult[Any]:
    if not recalled:
        return response
    return ExtendedModelResponse(response, Command(update={**recalled}))


def _with_context(request: ModelRequest[Any], recalled: MemoryState | None) -> ModelRequest[Any]:
    state: Mapping[str, Any] = {**request.state, **(recalled or {})}
    messages: list[Any] = [*request.messages]
    if request.system_message:
        messages.insert(0, request.system_message)
    messages = [*with_memory(messages, state[_CONTEXT])]
    system: SystemMessage | None = None
    if messages and isinstance(messages[0], SystemMessage):
        system = messages.pop(0)
    return request.override(system_message=system, messages=messages)
