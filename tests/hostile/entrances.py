"""Every public entrance with a place for one bad value in it; the arguments of a method by their names."""

import inspect
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from mnemic import Administration, Identity, Mnemic
from mnemic.service.admin import Admin
from mnemic.service.governance.history import BlindHistory, History
from mnemic.service.governance.privacy import Privacy
from mnemic.service.hosts.threads import Threads
from mnemic.service.usage import UsageReports
from mnemic.state.errors import InvalidInputError
from mnemic.state.explicit import ProcedureRequest, RememberRequest
from mnemic.state.kinds import KINDS
from mnemic.state.query import MemoryFilters, MemoryQuery
from mnemic.state.records import ScopeChanges
from mnemic.state.supervisor import MemoryState
from tests.support.agents import called, host
from tests.support.threads import answering, at, said

#: What one call does with the bad value; the identity's session is the cell's own.
Act = Callable[[Any, Identity, Any], Awaitable[object]]

_GOOD = {"role": "user", "content": "I keep bees."}
_FACT = {"content": "Ana keeps bees.", "category": "activity"}
_ID = "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"
#: Whoever asks.
_WHO = ("identity",)
#: What a method needs where another argument is the bad one.
_NEEDED: dict[str, Any] = {
    "user_id": "ana",
    **_FACT,
    "messages": [_GOOD],
    "query": "Bees?",
    "question": "Bees?",
    "id": _ID,
    "ids": _ID,
    "tenant_id": "default",
    "session_id": "s1",
    "since": datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
    "scope_key": "user:ana",
    "at": 0,
    "anchors": "nowhere/anchors",
    "source": InMemorySaver(),
}
#: They make something that is used afterwards; their rows are written out below.
_MAKING = {"open", "tools", "middleware", "privacy.export_audit"}
#: Where the public methods are, beside the object itself.
NAMESPACES: dict[str, type] = {
    "history.": History,
    "threads.": Threads,
    "privacy.": Privacy,
    "admin.": Admin,
    "usage.": UsageReports,
}


async def _call(target: object, method: str, who: object, bad: dict[str, Any]) -> object:
    """A method with one bad argument, and as many good ones as it needs."""
    call = attrgetter(method)(target)
    parameters = inspect.signature(call).parameters.values()
    takes_several = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    first: list[Any] = []
    named = dict(bad)
    for each in parameters:
        is_needed = each.default is each.empty and each.kind is not each.VAR_KEYWORD
        if each.name in _WHO or is_needed:
            named.setdefault(each.name, who if each.name in _WHO else _NEEDED[each.name])
        if each.name in named and takes_several and each.kind is not each.KEYWORD_ONLY:
            first.append(named.pop(each.name))
    done = call(*first, **named)
    return await done if isinstance(done, Awaitable) else done


def _of(method: str, argument: str, **others: Any) -> Act:
    """A method with one bad argument."""
    return lambda memory, who, value: _call(memory, method, who, {**others, argument: value})


def _governing(method: str, argument: str) -> Act:
    """The same of an administrator, who names the agent."""
    return lambda administration, _, value: _call(
        administration, method, Identity(agent_id="harbor"), {argument: value}
    )


def _arguments(of: type, prefix: str = "") -> list[tuple[str, str]]:
    """Every argument of every public method that can be called as it is."""
    methods = [name for name in dir(of) if not name.startswith("_") and f"{prefix}{name}" not in _MAKING]
    return [
        (f"{prefix}{name}", each.name)
        for name in methods
        if callable(method := getattr(of, name))
        for each in inspect.signature(method).parameters.values()
        if each.name != "self" and each.kind is not each.VAR_KEYWORD
    ]


def _observe(messages: Callable[[Any], list[Any]]) -> Act:
    return lambda memory, who, value: memory.observe(who, messages(value))


def _message(field: str) -> Act:
    return _observe(lambda value: [_GOOD, {**_GOOD, field: value}])


def _langchain(**fields: Any) -> HumanMessage:
    return HumanMessage.model_construct(**{"content": "I keep bees.", "additional_kwargs": {}, **fields})


def _scope(field: str) -> Act:
    return lambda memory, who, value: memory.admin.configure_scope(who, "user:ana", **{field: value})


def _identity(field: str, *others: str, copied: bool = False) -> Act:
    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        given: dict[str, Any] = {field: [*others, value] if others else value}
        new: dict[str, Any] = {"agent_id": "harbor", "session_id": "s1", **given}
        return await memory.observe(who.model_copy(update=given) if copied else Identity(**new), [_GOOD])

    return act


def graph_of(memory: Mnemic, name: str) -> Any:
    return memory.graphs.supervisor() if name == "supervisor" else getattr(memory.graphs, name)


def _context(graph: str) -> Act:
    return lambda memory, _, value: graph_of(memory, graph).ainvoke({}, context=value)


def _input(graph: str, field: str, **others: str) -> Act:
    return lambda memory, who, value: graph_of(memory, graph).ainvoke({**others, field: value}, context=who)


def _making(make: Callable[[Mnemic, Any], object]) -> Act:
    """Something that is made with a bad value, and not yet used."""

    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        return make(memory, value)

    return act


def _filter(name: str) -> Act:
    return lambda memory, who, value: memory.query(who, "Bees?", filters={name: value})


async def _turn(memory: Mnemic, context: Any, *messages: Any) -> object:
    supervisor: Any = memory.graphs.supervisor()
    return await supervisor.ainvoke({"messages": list(messages)}, context=context)


class _Turn(MemoryState):
    messages: Any


class _TurnInput(TypedDict):
    messages: Any


async def _run_node(node: Any, state: Any, context: Any) -> object:
    builder = StateGraph(_Turn, input_schema=_TurnInput)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return await builder.compile().ainvoke(state, context=context)


def _node(method: str, argument: str) -> Act:
    """A node made with one bad argument, run in a host's graph."""

    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        node = getattr(memory.nodes, method)(**{argument: value})
        return await _run_node(node, {"messages": [_GOOD]}, who)

    return act


def _node_with(method: str, state: Callable[[Any], Any] | None = None) -> Act:
    """A node in a graph with a bad value in its state; without a state the value is the graph's context."""

    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        node = getattr(memory.nodes, method)()
        if state:
            return await _run_node(node, state(value), who)
        return await _run_node(node, {"messages": []}, value)

    return act


async def _export(memory: Mnemic, who: Identity, value: Any) -> object:
    return [line async for line in memory.privacy.export_audit(value)]


def _host(memory: Mnemic, context: Any = None, **configurable: Any) -> Awaitable[object]:
    """A run of a host over the checkpointer that takes its owner from the run."""
    return answering(memory.threads.checkpointer()).ainvoke(
        said("I keep bees."), at("t", **configurable), context=context
    )


@lru_cache(maxsize=1)
def _tools(memory: Mnemic) -> Any:
    """The graph that calls them, which takes longer to build than to run."""
    return host(memory.tools())


def _tool(name: str, put: Callable[[Any], dict[str, Any]]) -> Act:
    """A tool with one bad argument, as far as a model can send it; its refusal is raised as the model reads it."""

    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        try:
            sent = json.loads(json.dumps(value))
        except (TypeError, ValueError, RecursionError, RuntimeError):
            return None
        message = await called(_tools(memory), who, name, {**CALLS[name][0], **put(sent)})
        if message.status == "error":
            raise InvalidInputError(str(message.content))
        return message

    return act


#: Entrances that store what they are given, by method.
OBSERVING: dict[str, Act] = {
    "observe: a message": _observe(lambda value: [_GOOD, value]),
    "observe: content": _observe(lambda value: [{**_GOOD, "content": value}]),
    "observe: a part": _observe(lambda value: [{**_GOOD, "content": [value]}]),
    "observe: a part's text": _observe(lambda value: [{**_GOOD, "content": [{"type": "text", "text": value}]}]),
    "observe: an id twice": _observe(lambda value: [{**_GOOD, "id": value}] * 2),
    **{f"observe: {field}": _message(field) for field in ("role", "author", "name", "user", "time", "id")},
    "observe: LangChain's content": _observe(lambda value: [_langchain(content=value)]),
    "observe: LangChain's name and id": _observe(lambda value: [_langchain(name=value, id=value)]),
    "observe: LangChain's user": _observe(lambda value: [_langchain(additional_kwargs={"user": value})]),
    "nodes.observe: context": _node_with("observe"),
    "nodes.observe: messages": _node_with("observe", lambda value: {"messages": value}),
    "nodes.observe: messages_key": _node("observe", "messages_key"),
    "nodes.observe: several_speakers": _node("observe", "several_speakers"),
    "remember: a core memory": _of("remember", "content", category="style", kind="core"),
    "remember: for everyone": _of("remember", "content", category="projects", scope="agent"),
    "remember: a step": lambda memory, who, value: memory.remember(
        who, "Tea", kind="procedure", steps=["Boil.", value]
    ),
}
ASKING: dict[str, Act] = {
    "nodes.form: context": _node_with("form"),
    "nodes.recall: context": _node_with("recall"),
    "nodes.recall: messages": _node_with("recall", lambda value: {"messages": value}),
    "nodes.recall: content": _node_with("recall", lambda value: {"messages": [{**_GOOD, "content": value}]}),
    **{
        f"nodes.recall: {argument}": _node("recall", argument)
        for argument in ("role", "search", "budget_tokens", "messages_key")
    },
    **{
        f"middleware: {argument}": _making(lambda memory, value, name=argument: memory.middleware(**{name: value}))  # type: ignore[misc]
        for argument in ("role", "search", "budget_tokens", "tools", "observe", "form", "several_speakers")
    },
    "refine: a scope key to refine at once": _of("refine", "scope_key", force=True),
    "recall: a question to search for": _of("recall", "question", search="always"),
    "query: a category": lambda memory, who, value: memory.query(who, "Bees?", categories=["tasks", value]),
    "query: a scope": lambda memory, who, value: memory.query(who, "Bees?", scopes=["user", value]),
    "query: no such filter": _filter("no such filter"),
    **{f"query: filter {name}": _filter(name) for name in MemoryFilters.model_fields},
    "tools: role": _making(lambda memory, value: memory.tools(value)),
    "memories: a kind": lambda memory, who, value: memory.memories(who, [*KINDS, value]),
}
#: One of several, and hosts' ways to their threads.
SEVERAL: dict[str, Act] = {
    "history.undo: one of several": lambda memory, who, value: memory.history.undo(who, _ID, value),
    "privacy.erase: one of several": lambda memory, who, value: memory.privacy.erase(who, _ID, value),
    "threads.prune: one of several": lambda memory, who, value: memory.threads.prune(who, "t", value),
    "threads.copy: a thread's id": lambda memory, who, value: memory.threads.copy(
        who, InMemorySaver(), ids=["t", value]
    ),
    "threads.checkpointer: context": lambda memory, _, value: _host(memory, value),
    "threads.checkpointer: agent_id": lambda memory, _, value: _host(memory, agent_id=value),
    "threads.checkpointer: user_id": lambda memory, _, value: _host(memory, agent_id="harbor", user_id=value),
    "privacy.export_audit: identity": _export,
}
#: Those of `Administration`.
GOVERNING: dict[str, Act] = {
    f"Administration.{method}: {argument}": _governing(method, argument)
    for method, argument in [*_arguments(Administration), *_arguments(BlindHistory, "history.")]
}
CONFIGURING: dict[str, Act] = {
    "admin.configure_agent: identity": _of("admin.configure_agent", "identity", rag=False),
    "admin.configure_agent: no such setting": _of("admin.configure_agent", "no such setting"),
    # one of each type
    **{
        f"admin.configure_agent: {name}": _of("admin.configure_agent", name)
        for name in ("rag", "keep_messages", "recall_limit", "agent_model", "persona")
    },
    **{f"admin.configure_scope: {field}": _scope(field) for field in ScopeChanges.__annotations__},
}
GRAPHS: dict[str, Act] = {
    "graphs.supervisor: checkpointer": _making(lambda memory, value: memory.graphs.supervisor(value)),
    **{f"graphs.{graph}: context": _context(graph) for graph in ("formation", "consolidation", "recall", "refinement")},
    "graphs.formation: force": _input("formation", "force"),
    "graphs.formation: retry": _input("formation", "retry"),
    "graphs.consolidation: scope_key": _input("consolidation", "scope_key"),
    "graphs.consolidation: force": _input("consolidation", "force", scope_key="user:ana"),
    "graphs.refinement: scope_key": _input("refinement", "scope_key"),
    "graphs.refinement: dry_run": _input("refinement", "dry_run"),
    "graphs.refinement: force": _input("refinement", "force", scope_key="user:ana"),
    **{
        f"graphs.recall: {field}": _input("recall", field)
        for field in ("question", "previous", "search", "budget_tokens")
    },
    "graphs.supervisor: context": lambda memory, _, value: _turn(memory, value, _GOOD),
    "graphs.supervisor: messages": _input("supervisor", "messages"),
    "graphs.supervisor: a message": lambda memory, who, value: _turn(memory, who, _GOOD, value),
    "graphs.supervisor: content": lambda memory, who, value: _turn(memory, who, {**_GOOD, "content": value}),
}
#: What each tool takes beside a bad argument, and all its arguments; of the filters one of each type.
CALLS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "memory_query": (
        {"query": "Bees?", "search_type": "text"},
        {*MemoryQuery.model_fields},
    ),
    "remember": (_FACT, {*RememberRequest.model_fields}),
    "remember_procedure": ({"title": "Make tea", "steps": ["Boil it."]}, {*ProcedureRequest.model_fields}),
    "correct": ({"id": _ID, "content": _FACT["content"]}, {"id", "content"}),
    "forget": ({"id": _ID}, {"id"}),
}
TOOLS: dict[str, Act] = {
    **{
        f"tool {tool}: {argument}": _tool(tool, lambda value, name=argument: {name: value})  # type: ignore[misc]
        for tool, (_, arguments) in CALLS.items()
        for argument in sorted({*arguments, "no such argument"})
    },
    **{
        f"tool memory_query: filter {name}": _tool("memory_query", lambda value, name=name: {"filters": {name: value}})  # type: ignore[misc]
        for name in ("user_id", "pinned", "importance_min", "updated_after", "no such filter")
    },
}
BUILDING: dict[str, Act] = {
    **{f"Identity: {field}": _identity(field) for field in Identity.model_fields},
    "Identity: a group": _identity("group_ids", "crew"),
    "Identity: no such field": _identity("no such field"),
    **{f"Identity copied: {field}": _identity(field, copied=True) for field in Identity.model_fields},
}
_METHODS = [*_arguments(Mnemic), *(pair for prefix, of in NAMESPACES.items() for pair in _arguments(of, prefix))]
#: Of every public method of `Mnemic`.
METHODS: dict[str, Act] = {
    **{f"{method}: {argument}": _of(method, argument) for method, argument in _METHODS},
    **OBSERVING,
    **ASKING,
    **SEVERAL,
    **CONFIGURING,
}
ENTRANCES: dict[str, Act] = {**METHODS, **GRAPHS, **TOOLS, **BUILDING, **GOVERNING}
