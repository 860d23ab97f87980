"""LangSmith and OpenTelemetry receive names and times of our runs, and contents only if a setting shows them."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import langsmith
import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import TracePolicy, omit_payload
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mnemic import Identity, MemoryState, Mnemic
from mnemic.state.errors import ModelOutputError
from tests.support import refinements
from tests.support.agents import (
    CANARY,
    FRIDAY,
    KEPT,
    QUESTION,
    VISIBLE,
    agent,
    host,
    keep,
    remember,
    said,
    says,
    turn,
)
from tests.support.loopback import LoopbackModel, calling
from tests.support.scripted import FACTS, scripted_memory, turns
from tests.support.server import Clone

#: Words of the memories, the user's messages and the answers.
WORDS = (CANARY, "bees", VISIBLE)
#: Runs of ours, with all runs inside them.
OURS = ("recall", "formation", "consolidation", "refinement", "supervisor", "memory_query", "remember", "correct")
HOOKS = ("MemoryMiddleware.before_agent", "MemoryMiddleware.after_agent", "MemoryMiddleware.awrap_model_call")


class TracedRun(NamedTuple):
    name: str
    parent: str | None
    #: All that was sent of it.
    text: str


Traced = dict[str, TracedRun]


class Turn(MessagesState, MemoryState):
    """A host's state."""


@contextmanager
def traced_by(client: langsmith.Client) -> Iterator[None]:
    """Send traces to a client until the end of the block."""
    try:
        langsmith.configure(client=client, enabled=True)
        yield
    finally:
        langsmith.configure(client=None, enabled=None)


@contextmanager
def sent_to_langsmith() -> Iterator[Callable[[], Traced]]:
    """The runs that the real client sends to a server."""
    bodies: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append((body["id"] if self.command == "POST" else self.path.rpartition("/")[2], body))
            self.send_response(202)
            self.end_headers()

        do_PATCH = do_POST  # noqa: N815 - the name that http.server looks up

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of http.server
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    client = langsmith.Client(api_url=url, api_key="test", auto_batch_tracing=False, info={})

    def runs() -> Traced:
        found: Traced = {}
        for run_id, body in bodies:
            earlier = found.get(run_id, TracedRun("", None, ""))
            name, parent = body.get("name") or earlier.name, body.get("parent_run_id") or earlier.parent
            found[run_id] = TracedRun(name, parent, f"{earlier.text}{json.dumps(body, ensure_ascii=False)}")
        return found

    try:
        with traced_by(client):
            yield runs
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


@contextmanager
def made_as_spans() -> Iterator[Callable[[], Traced]]:
    """The spans that the client makes instead if OpenTelemetry is switched on."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    client = langsmith.Client(
        api_url="http://127.0.0.1:9", api_key="test", tracing_mode="otel", otel_tracer_provider=provider, info={}
    )

    def runs() -> Traced:
        client.flush()
        found: Traced = {}
        for span in exporter.get_finished_spans():
            parent = str(span.parent.span_id) if span.parent else None
            found[str(span.context.span_id)] = TracedRun(span.name, parent, span.to_json())
        return found

    try:
        with traced_by(client):
            yield runs
    finally:
        client.cleanup()
        provider.shutdown()


def of_ours(runs: Traced) -> list[TracedRun]:
    """Runs of ours and all inside them; the model call of a host's agent is the host's."""

    def is_ours(run: TracedRun) -> bool:
        while run.name not in (*OURS, *HOOKS):
            if run.parent not in runs:
                return False
            run = runs[run.parent]
            if run.name in HOOKS:
                return False
        return True

    return [run for run in runs.values() if is_ours(run)]


def telling(runs: list[TracedRun]) -> set[str]:
    """The names of those that hold a word of a memory or a message."""
    return {run.name for run in runs if any(word in run.text for word in WORDS)}


async def a_day(memory: Mnemic, model: LoopbackModel) -> None:
    """Every graph, tool and hook once: formation, a host's agent and graph, the supervisor, a refinement, an error."""
    await remember(memory, model)
    query = calling(("memory_query", {"query": f"{CANARY} bees"}))
    says(model, query, VISIBLE, query, VISIBLE, query, VISIBLE)
    own = agent(memory, model)
    await own.ainvoke(said(QUESTION), context=FRIDAY)
    await asyncio.to_thread(own.invoke, said(QUESTION), context=FRIDAY)
    supervisor: Any = memory.graphs.supervisor()
    streamed = [part async for part, _ in supervisor.astream(said(QUESTION), context=FRIDAY, stream_mode="messages")]
    assert VISIBLE in "".join(part.text for part in streamed)
    await own_graph(memory).ainvoke(said(QUESTION), context=FRIDAY)
    await memory.graphs.recall.ainvoke({"question": QUESTION, "search": "always"}, context=FRIDAY)
    await memory.graphs.formation.ainvoke({"force": True}, context=FRIDAY)
    await refinements.refined(memory, model, KEPT, f"Ana calls {CANARY} her bees.", into=KEPT)
    await interrupted(memory, model)
    model.answer(FACTS, f"{CANARY} bees")
    await memory.observe(FRIDAY, turns(f"My bees are called {CANARY}, too.", user="ana"))
    with pytest.raises(ModelOutputError):
        await memory.form(FRIDAY, force=True)


def own_graph(memory: Mnemic) -> Any:
    """A host's graph with nodes of ours, for which it sets what docs/security.md says."""

    async def answer(state: Turn) -> dict[str, Any]:
        return {"messages": [AIMessage(VISIBLE)]}

    private = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)
    graph: Any = StateGraph(Turn, context_schema=Identity)
    graph.add_node("recall", memory.nodes.recall(), trace_policy=private)
    graph.add_node("answer", answer)
    graph.add_node("observe", memory.nodes.observe(), trace_policy=private)
    return graph.add_edge(START, "recall").add_edge("recall", "answer").add_edge("answer", "observe").compile()


async def interrupted(memory: Mnemic, model: LoopbackModel) -> None:
    """A turn that asks its user about a correction, and shows it what would be written."""
    kept = await keep(memory, f"Ana counts {CANARY} every evening.", importance=4)
    says(model, calling(("correct", {"id": kept, "content": f"Ana's bees are {CANARY}."})))
    done = await turn(memory.graphs.supervisor(InMemorySaver()))
    assert CANARY in str(done["__interrupt__"])


class HostTracer(BaseTracer):
    """A tracer of the host's own, which keeps whole runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.runs.append(run)


@pytest.mark.parametrize("shown", [False, True])
async def test_a_hosts_own_tracer_gets_the_contents_of_its_own_runs_alone(
    clean_db: Clone, model: LoopbackModel, shown: bool
) -> None:
    tracer = HostTracer()
    async with scripted_memory(clean_db, model, trace_contents=shown) as memory:
        await keep(memory)
        config: Any = {"callbacks": [tracer]}
        await memory.graphs.recall.ainvoke({"question": QUESTION, "search": "always"}, config, context=FRIDAY)
        query = {"name": "memory_query", "args": {"query": f"{CANARY} bees"}, "id": "call_1", "type": "tool_call"}
        await host(memory.tools()).ainvoke({"messages": [AIMessage("", tool_calls=[query])]}, config, context=FRIDAY)

    recall, agent_run = tracer.runs
    (tool,) = [run for node in agent_run.child_runs for run in node.child_runs]
    assert (recall.name, tool.name) == ("recall", "memory_query")
    assert (CANARY in str(recall), CANARY in str(tool), CANARY in str(agent_run.inputs)) == (shown, shown, True)


async def test_a_tool_that_does_not_reach_its_memory_is_private_too(clean_db: Clone, model: LoopbackModel) -> None:
    tracer = HostTracer()
    config: Any = {"callbacks": [tracer]}
    query = {"name": "memory_query", "args": {"query": f"{CANARY} bees"}, "id": "call_1", "type": "tool_call"}
    calls = {"messages": [AIMessage("", tool_calls=[query])]}
    async with scripted_memory(clean_db, model) as memory:
        agent_with_tools = host(memory.tools())
        blocked = agent_with_tools.invoke(calls, config, context=FRIDAY)
    closed = await agent_with_tools.ainvoke(calls, config, context=FRIDAY)

    assert [turn["messages"][-1].status for turn in (blocked, closed)] == ["error", "error"]
    tools = [run for agent_run in tracer.runs for node in agent_run.child_runs for run in node.child_runs]
    assert [(run.name, CANARY in str(run)) for run in tools] == [("memory_query", False)] * 2


@pytest.mark.parametrize("shown", [False, True])
async def test_a_formation_by_a_method_is_one_run_within_the_hosts_and_private(
    clean_db: Clone, model: LoopbackModel, shown: bool
) -> None:
    tracer = HostTracer()
    async with scripted_memory(clean_db, model, trace_contents=shown) as memory:

        async def node(_: Any) -> None:
            await remember(memory, model)

        await RunnableLambda(node, name="host").ainvoke({}, {"callbacks": [tracer]})

    (host_run,) = tracer.runs
    (formation,) = host_run.child_runs
    assert (host_run.name, formation.name) == ("host", "formation")
    assert [run.name for run in formation.child_runs] == ["ChatOpenAI", "ChatOpenAI"]
    payloads = str([(run.inputs, run.outputs) for run in formation.child_runs])
    assert (CANARY in payloads, "I keep bees" in payloads) == (shown, shown)


@pytest.mark.thorough
@pytest.mark.parametrize("tracing", [sent_to_langsmith, made_as_spans])
async def test_a_trace_shows_the_runs_of_the_memory_without_their_contents(
    memory: Mnemic, model: LoopbackModel, tracing: Any
) -> None:
    with tracing() as runs:
        await a_day(memory, model)
        traced = runs()

    ours = of_ours(traced)
    names = {run.name for run in ours}
    assert names >= {"recall", "formation", "refinement", "supervisor", "memory_query", "extract_facts", "ChatOpenAI"}
    assert names >= {*HOOKS}
    assert telling(ours) == set()
    assert telling([*traced.values()]) >= {"LangGraph", "model", "ChatOpenAI", "answer"}  # the host's own


@pytest.mark.thorough
@pytest.mark.parametrize("tracing", [sent_to_langsmith, made_as_spans])
async def test_a_setting_shows_the_contents(clean_db: Clone, model: LoopbackModel, tracing: Any) -> None:
    async with scripted_memory(clean_db, model, trace_contents=True) as memory:
        with tracing() as runs:
            await a_day(memory, model)
            traced = runs()

    shown = {"recall", "supervisor", "memory_query", "extract_facts", "confirm", "agent", "ChatOpenAI"}
    assert telling(of_ours(traced)) >= {*shown, *HOOKS}
