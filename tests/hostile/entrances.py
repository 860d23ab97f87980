"""Every public entrance with a place for one bad value in it; the arguments of a method by their names."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime

from mnemic import Administration, Identity, Mnemic, ScopeSettings, Settings
from mnemic.state.kinds import ALL_KINDS
from mnemic.state.query import MemoryFilters
from tests.hostile.thread_entrances import THREADS

#: What one call does with the bad value; the identity's session is the cell's own.
Act = Callable[[Mnemic, Identity, Any], Awaitable[object]]
#: The same of an administrator, who names the agent.
Governing = Callable[[Administration, Any], Awaitable[object]]

_GOOD = {"role": "user", "content": "I keep bees."}
_FACT = {"content": "Ana keeps bees.", "category": "interests"}
_ID = "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"
_SESSION: dict[str, Any] = {"session_id": "s1", "since": datetime(2026, 3, 2, 9, 0, tzinfo=UTC)}
_MOMENT: dict[str, Any] = {"scope_key": "user:ana", "moment": 0}
_SWITCHES = ("cascade", "skip_erased", "dry_run")
#: Methods that `Mnemic` and `Administration` share.
_SHARED = ("operations", "undo", "undo_session", "undo_refinement", "restore")
_PROCEDURE: dict[str, Any] = {"title": "Make tea", "steps": ["Boil the water.", "Add the tea."]}


def _message(field: str) -> Act:
    return lambda memory, who, value: memory.observe(who, [_GOOD, {**_GOOD, field: value}])


def _langchain(**fields: Any) -> HumanMessage:
    return HumanMessage.model_construct(**{"content": "I keep bees.", "additional_kwargs": {}, **fields})


def _of(method: str, argument: str = "", **others: Any) -> Act:
    """A method with one bad argument; without one the identity is the bad value."""
    if not argument:
        return lambda memory, _, value: getattr(memory, method)(value, **others)
    return lambda memory, who, value: getattr(memory, method)(who, **{**others, argument: value})


def _scope(field: str) -> Act:
    given: dict[str, Any] = {"scope_key": "user:ana"}
    return lambda memory, who, value: memory.configure_scope(who, ScopeSettings(**{**given, field: value}))


def _identity(field: str) -> Act:
    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        return await memory.observe(Identity(**{"agent_id": "harbor", "session_id": "s1", field: value}), [_GOOD])

    return act


def _copied_identity(field: str) -> Act:
    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        return await memory.observe(who.model_copy(update={field: value}), [_GOOD])

    return act


def graph_of(memory: Mnemic, name: str) -> Any:
    return memory.graphs.supervisor() if name == "supervisor" else getattr(memory.graphs, name)


def _context(graph: str) -> Act:
    return lambda memory, _, value: graph_of(memory, graph).ainvoke({}, context=value)


def _input(graph: str, field: str) -> Act:
    return lambda memory, who, value: graph_of(memory, graph).ainvoke({field: value}, context=who)


def _setting(name: str) -> Act:
    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        return Settings(**{name: value})

    return act


async def _part(memory: Mnemic, who: Identity, value: Any) -> object:
    return await memory.observe(who, [{**_GOOD, "content": [value]}])


async def _part_text(memory: Mnemic, who: Identity, value: Any) -> object:
    return await memory.observe(who, [{**_GOOD, "content": [{"type": "text", "text": value}]}])


async def _twice(memory: Mnemic, who: Identity, value: Any) -> object:
    return await memory.observe(who, [{**_GOOD, "id": value}, {**_GOOD, "id": value}])


def _filter(name: str) -> Act:
    return lambda memory, who, value: memory.query(who, "Bees?", filters={name: value})


async def _tools(memory: Mnemic, who: Identity, value: Any) -> object:
    return memory.tools(value)


async def _turn(memory: Mnemic, context: Any, *messages: Any) -> object:
    supervisor: Any = memory.graphs.supervisor()
    return await supervisor.ainvoke({"messages": list(messages)}, context=context)


async def _supervisor(memory: Mnemic, who: Identity, value: Any) -> object:
    return memory.graphs.supervisor(value)


async def _middleware_of(memory: Mnemic, **given: Any) -> object:
    return memory.middleware(**given)


def _middleware(argument: str) -> Act:
    return lambda memory, _, value: _middleware_of(memory, **{argument: value})


def _node(method: str, argument: str) -> Act:
    """A node made with one bad argument, run in a host's graph."""

    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        node = getattr(memory, method)(**{argument: value})
        return await node({"messages": [_GOOD]}, Runtime(context=who))

    return act


def _node_with(method: str, state: Callable[[Any], Any] | None = None) -> Act:
    """A node in a graph with a bad value in its state; without a state the value is the graph's context."""

    async def act(memory: Mnemic, who: Identity, value: Any) -> object:
        context = who if state else value
        return await getattr(memory, method)()(state(value) if state else {"messages": []}, Runtime(context=context))

    return act


async def _export(memory: Mnemic, who: Identity, value: Any) -> object:
    return [line async for line in memory.export_audit(value)]


def _undo(switch: str) -> Act:
    return lambda memory, who, value: memory.undo(who, _ID, **{switch: value})


def _governing(method: str, argument: str, **others: Any) -> Governing:
    given = {"whose" if method in _SHARED else "agent_id": "harbor", **others}
    return lambda administration, value: getattr(administration, method)(**{**given, argument: value})


def _governing_undo(switch: str) -> Governing:
    return lambda administration, value: administration.undo("harbor", _ID, **{switch: value})


#: Entrances that store what they are given, by method.
OBSERVING: dict[str, Act] = {
    "observe: messages": _of("observe", "messages"),
    "observe: a message": lambda memory, who, value: memory.observe(who, [_GOOD, value]),
    "observe: content": lambda memory, who, value: memory.observe(who, [{**_GOOD, "content": value}]),
    "observe: a part": _part,
    "observe: a part's text": _part_text,
    "observe: an id twice": _twice,
    **{f"observe: {field}": _message(field) for field in ("role", "author", "name", "user", "time", "id")},
    "observe: LangChain's content": lambda memory, who, value: memory.observe(who, [_langchain(content=value)]),
    "observe: LangChain's name": lambda memory, who, value: memory.observe(who, [_langchain(name=value)]),
    "observe: LangChain's id": lambda memory, who, value: memory.observe(who, [_langchain(id=value)]),
    "observe: LangChain's user": lambda memory, who, value: memory.observe(
        who, [_langchain(additional_kwargs={"user": value})]
    ),
    "observe: identity": _of("observe", messages=[_GOOD]),
    "observe: revision": _of("observe", "revision", messages=[_GOOD]),
    "observe: several_speakers": _of("observe", "several_speakers", messages=[_GOOD]),
    "observe_node: context": _node_with("observe_node"),
    "observe_node: messages": _node_with("observe_node", lambda value: {"messages": value}),
    "observe_node: messages_key": _node("observe_node", "messages_key"),
    "observe_node: several_speakers": _node("observe_node", "several_speakers"),
    "remember: identity": _of("remember", **_FACT),
    **{
        f"remember: {argument}": _of("remember", argument, **_FACT)
        for argument in ("content", "category", "kind", "importance", "scope", "private")
    },
    "remember: a core memory": _of("remember", "content", category="tone", kind="core"),
    "remember: for everyone": _of("remember", "content", category="projects", scope="agent"),
    "remember_procedure: identity": _of("remember_procedure", **_PROCEDURE),
    **{
        f"remember_procedure: {argument}": _of("remember_procedure", argument, **_PROCEDURE)
        for argument in ("title", "steps", "scope")
    },
    "remember_procedure: a step": lambda memory, who, value: memory.remember_procedure(who, "Tea", ["Boil.", value]),
    "forget: identity": _of("forget", memory_id=_ID),
    "forget: memory_id": _of("forget", "memory_id"),
}
ASKING: dict[str, Act] = {
    "form: identity": _of("form"),
    "form: force": _of("form", "force"),
    "form: retry": _of("form", "retry"),
    "form_later: identity": _of("form_later"),
    "formation_node: context": _node_with("formation_node"),
    "recall_node: context": _node_with("recall_node"),
    "recall_node: messages": _node_with("recall_node", lambda value: {"messages": value}),
    "recall_node: a message": _node_with("recall_node", lambda value: {"messages": [value]}),
    "recall_node: content": _node_with("recall_node", lambda value: {"messages": [{**_GOOD, "content": value}]}),
    "recall_node: LangChain's content": _node_with(
        "recall_node", lambda value: {"messages": [_langchain(content=value)]}
    ),
    **{
        f"recall_node: {argument}": _node("recall_node", argument)
        for argument in ("role", "search", "budget_tokens", "messages_key")
    },
    **{
        f"middleware: {argument}": _middleware(argument)
        for argument in ("role", "search", "budget_tokens", "observe", "form", "several_speakers")
    },
    "consolidate: identity": _of("consolidate", scope_key="user:ana"),
    "consolidate: scope_key": _of("consolidate", "scope_key"),
    "consolidate: force": _of("consolidate", "force", scope_key="user:ana"),
    "refine: identity": _of("refine"),
    **{f"refine: {argument}": _of("refine", argument) for argument in ("scope_key", "force", "dry_run")},
    "refine: a scope key to refine at once": _of("refine", "scope_key", force=True),
    "recall: identity": _of("recall"),
    "recall: question": _of("recall", "question"),
    "recall: a question to search for": _of("recall", "question", search="always"),
    "recall: search": _of("recall", "search"),
    "recall: budget_tokens": _of("recall", "budget_tokens"),
    "recall_text: identity": _of("recall_text", question="Bees?"),
    "recall_text: question": _of("recall_text", "question"),
    "query: identity": _of("query", query="Bees?"),
    "query: query": _of("query", "query"),
    "query: a question for the words alone": _of("query", "query", search_type="text"),
    **{
        f"query: {argument}": _of("query", argument, query="Bees?")
        for argument in ("categories", "filters", "scopes", "search_type", "top_k", "threshold", "budget_tokens")
    },
    "query: a category": lambda memory, who, value: memory.query(who, "Bees?", categories=["tasks", value]),
    "query: a scope": lambda memory, who, value: memory.query(who, "Bees?", scopes=["user", value]),
    "query: no such filter": _filter("no such filter"),
    **{f"query: filter {name}": _filter(name) for name in MemoryFilters.model_fields},
    "tools: role": _tools,
    "updates: identity": _of("updates"),
    "updates: since": _of("updates", "since"),
    "memories: identity": _of("memories"),
    "memories: kinds": _of("memories", "kinds"),
    "memories: a kind": lambda memory, who, value: memory.memories(who, [*ALL_KINDS, value]),
    "memories: limit": _of("memories", "limit"),
    "memories: with_closed": _of("memories", "with_closed"),
    "history: identity": _of("history", memory_id=_ID),
    "history: memory_id": _of("history", "memory_id"),
    "usage: identity": _of("usage"),
    "agent_settings: identity": _of("agent_settings"),
}
#: The Time Machine and what else belongs to the person concerned.
ROLLING_BACK: dict[str, Act] = {
    "operations: whose": _of("operations"),
    **{f"operations: {argument}": _of("operations", argument) for argument in ("session_id", "since", "limit")},
    "undo: whose": lambda memory, _, value: memory.undo(value, _ID),
    "undo: op_ids": lambda memory, who, value: memory.undo(who, value),
    "undo: one of several": lambda memory, who, value: memory.undo(who, _ID, value),
    **{f"undo: {switch}": _undo(switch) for switch in _SWITCHES},
    "undo_session: whose": _of("undo_session", **_SESSION),
    **{
        f"undo_session: {argument}": _of("undo_session", argument, **_SESSION)
        for argument in ("session_id", "since", *_SWITCHES)
    },
    "refinements: identity": _of("refinements"),
    "refinements: limit": _of("refinements", "limit"),
    "undo_refinement: whose": _of("undo_refinement", refinement_id=_ID),
    **{
        f"undo_refinement: {argument}": _of("undo_refinement", argument, refinement_id=_ID)
        for argument in ("refinement_id", *_SWITCHES)
    },
    "restore: whose": _of("restore", **_MOMENT),
    **{
        f"restore: {argument}": _of("restore", argument, **_MOMENT)
        for argument in ("scope_key", "moment", "skip_erased", "dry_run")
    },
    "as_of: identity": _of("as_of", **_MOMENT),
    **{f"as_of: {argument}": _of("as_of", argument, **_MOMENT) for argument in ("scope_key", "moment", "with_closed")},
    "erase: identity": lambda memory, _, value: memory.erase(value, _ID),
    "erase: memory_ids": lambda memory, who, value: memory.erase(who, value),
    "erase: one of several": lambda memory, who, value: memory.erase(who, _ID, value),
    "erase: dry_run": lambda memory, who, value: memory.erase(who, _ID, dry_run=value),
    "erase: progress": lambda memory, who, value: memory.erase(who, _ID, progress=value),
    "erase_person: identity": _of("erase_person"),
    **{f"erase_person: {argument}": _of("erase_person", argument) for argument in ("dry_run", "progress")},
    "export_audit: identity": _export,
}
#: Those of `Administration`.
GOVERNING: dict[str, Governing] = {
    "operations: whose": _governing("operations", "whose"),
    **{f"operations: {argument}": _governing("operations", argument) for argument in ("session_id", "since", "limit")},
    "undo: whose": lambda administration, value: administration.undo(value, _ID),
    "undo: op_ids": lambda administration, value: administration.undo("harbor", value),
    **{f"undo: {switch}": _governing_undo(switch) for switch in _SWITCHES},
    **{
        f"undo_session: {argument}": _governing("undo_session", argument, **_SESSION)
        for argument in ("whose", "session_id", "since", *_SWITCHES)
    },
    **{
        f"undo_refinement: {argument}": _governing("undo_refinement", argument, refinement_id=_ID)
        for argument in ("whose", "refinement_id", *_SWITCHES)
    },
    "refinements: agent_id": _governing("refinements", "agent_id"),
    "refinements: limit": _governing("refinements", "limit"),
    **{
        f"{method}: {argument}": _governing(method, argument, memory_id=_ID)
        for method in ("protect", "unprotect")
        for argument in ("agent_id", "memory_id")
    },
    **{
        f"restore: {argument}": _governing("restore", argument, **_MOMENT)
        for argument in ("whose", "scope_key", "moment", "skip_erased", "dry_run")
    },
    **{
        f"as_of: {argument}": _governing("as_of", argument, **_MOMENT)
        for argument in ("agent_id", "scope_key", "moment", "with_closed")
    },
    "purge: agent_id": _governing("purge", "agent_id"),
    "forget_messages: agent_id": _governing("forget_messages", "agent_id"),
    "verify: agent_id": _governing("verify", "agent_id"),
    "verify: anchors": _governing("verify", "anchors"),
    "anchor: agent_id": _governing("anchor", "agent_id", anchors="nowhere/anchors"),
    "anchor: anchors": _governing("anchor", "anchors"),
}
CONFIGURING: dict[str, Act] = {
    "configure_agent: identity": _of("configure_agent", rag=False),
    "configure_agent: no such setting": _of("configure_agent", "no such setting"),
    # one of each type; `SETTINGS` has them all
    **{
        f"configure_agent: {name}": _of("configure_agent", name)
        for name in ("rag", "keep_messages", "recall_limit", "agent_model", "persona")
    },
    "configure_scope: identity": _of("configure_scope", overrides=ScopeSettings(scope_key="user:ana")),
    "configure_scope: overrides": _of("configure_scope", "overrides"),
    **{f"configure_scope: {field}": _scope(field) for field in ScopeSettings.__dataclass_fields__},
}
GRAPHS: dict[str, Act] = {
    "graphs.supervisor: checkpointer": _supervisor,
    **{f"graphs.{graph}: context": _context(graph) for graph in ("formation", "consolidation", "recall", "refinement")},
    "graphs.formation: force": _input("formation", "force"),
    "graphs.formation: retry": _input("formation", "retry"),
    "graphs.consolidation: scope_key": _input("consolidation", "scope_key"),
    "graphs.consolidation: force": lambda memory, who, value: memory.graphs.consolidation.ainvoke(
        {"scope_key": "user:ana", "force": value}, context=who
    ),
    "graphs.refinement: scope_key": _input("refinement", "scope_key"),
    "graphs.refinement: dry_run": _input("refinement", "dry_run"),
    "graphs.refinement: force": lambda memory, who, value: memory.graphs.refinement.ainvoke(
        {"scope_key": "user:ana", "force": value}, context=who
    ),
    **{f"graphs.recall: {field}": _input("recall", field) for field in ("question", "search", "budget_tokens")},
    "graphs.supervisor: context": lambda memory, _, value: _turn(memory, value, _GOOD),
    "graphs.supervisor: messages": _input("supervisor", "messages"),
    "graphs.supervisor: a message": lambda memory, who, value: _turn(memory, who, _GOOD, value),
    "graphs.supervisor: content": lambda memory, who, value: _turn(memory, who, {**_GOOD, "content": value}),
    "graphs.supervisor: a LangChain message": lambda memory, who, value: _turn(memory, who, _langchain(content=value)),
}
BUILDING: dict[str, Act] = {
    **{f"Identity: {field}": _identity(field) for field in Identity.model_fields},
    "Identity: a group": lambda memory, who, value: _identity("group_ids")(memory, who, ["crew", value]),
    "Identity: no such field": _identity("no such field"),
    **{f"Identity copied: {field}": _copied_identity(field) for field in Identity.model_fields},
}
#: These need no database; one setting of each type.
SETTINGS: dict[str, Act] = {
    **{
        name: _setting(name)
        for name in {
            repr((field.annotation, field.metadata)): name for name, field in Settings.model_fields.items()
        }.values()
    },
    "no such setting": _setting("no such setting"),
}
#: Of every public method of `Mnemic`.
METHODS: dict[str, Act] = {**OBSERVING, **ASKING, **ROLLING_BACK, **THREADS, **CONFIGURING}
ENTRANCES: dict[str, Act] = {**METHODS, **GRAPHS, **BUILDING}
