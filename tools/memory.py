"""The tools of agents: `memory_query`, and those that write at a user's request.

A new tool is an operation in the folder of its feature, texts in `prompts/explicit/tools.py`, and an entry in
`AGENT_TOOLS`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.tools import BaseTool

from mnemic.memory.explicit.caller import ModelCaller
from mnemic.memory.explicit.correct import correct
from mnemic.memory.explicit.forget import forget
from mnemic.memory.explicit.remember import remember, remember_procedure
from mnemic.memory.messages.incoming import to_messages
from mnemic.memory.recall.query import query, result_line
from mnemic.memory.runtime.categories import Categories
from mnemic.memory.runtime.resources import Provider
from mnemic.prompts.explicit import tools
from mnemic.prompts.explicit.tools import CategoryChoices
from mnemic.prompts.tool_calls import ToolPrompt
from mnemic.state.explicit import ProcedureRequest, Remembered, RememberRequest
from mnemic.state.identity import SUPERVISOR
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Message, SearchResult
from mnemic.state.worker_threads import in_thread
from mnemic.tools.calling import Answer, Call, Tool, make_tool


class AgentTool(NamedTuple):
    """A tool of agents: its name, the roles that have it, its prompt and its operation."""

    name: str
    #: None: every role.
    roles: frozenset[str] | None
    prompt: Callable[[CategoryChoices], ToolPrompt]
    run: Callable[[Call], Awaitable[Answer]]


def make_tools(provide: Provider, role: str, categories: Categories | None = None) -> list[BaseTool]:
    """Return the tools of an agent in this role. Each acts for the identity of its run's context, in this role.

    Args:
        provide: opens the resources.
        role: the role in which the tools act, also if the run's identity has another one.
        categories: the descriptions name those that the role may read and write; None for descriptions without names.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    choices = CategoryChoices()
    if categories:
        choices = CategoryChoices(categories.of_role(role).categories, categories.writable(role))
    made: list[BaseTool] = []
    for tool in AGENT_TOOLS:
        if tool.roles is None or role in tool.roles:
            description, arguments = tool.prompt(choices)
            made.append(make_tool(provide, role, Tool(tool.name, description, arguments, tool.run)))
    return made


async def _query(call: Call) -> Answer:
    """Search; the artifact is the list of rows in the text."""
    request = MemoryQuery.model_validate(call.arguments, from_attributes=True)
    results = await query(call.resources, call.identity, request)
    rows = [_row(result, request, call.identity.user_id) for result in results]
    return tools.query_answer(rows), rows


def _row(result: SearchResult, request: MemoryQuery, reader: str | None) -> dict[str, Any]:
    row = {"id": str(result.id), "category": result.category, "text": result_line(result, request, reader)}
    if result.related_to is not None:
        row["related_to"] = str(result.related_to)
    if request.returns == "bullets":
        return row
    return row | {
        "kind": result.kind,
        "scope": result.scope_key,
        "dated": result.dated.isoformat(),
        "importance": result.importance,
        "score": round(result.score, 4),
        "session": result.session_id,
        "pinned": result.pinned,
        "tags": [*result.tags],
        "state": result.state,
        "supersedes": [str(memory_id) for memory_id in result.supersedes],
        "created": result.created_at.isoformat(),
        "updated": result.updated_at.isoformat(),
    }


async def _remember(
    request_type: type[RememberRequest | ProcedureRequest],
    operation: Callable[..., Awaitable[Remembered]],
    call: Call,
) -> Answer:
    """Store a fact, a commitment or a procedure; the artifact is the row of the result."""
    request = request_type(**call.arguments)
    conversation: list[Message] = []
    if request.scope != "user":
        conversation = await in_thread(_conversation, call)
    remembered = await operation(call.resources, call.identity, request, ModelCaller(conversation))
    return tools.remember_answer(remembered, request.scope), remembered.as_row()


async def _correct(call: Call) -> Answer:
    """Correct a memory; the artifact is the row of the result."""
    memory_id, content = call.arguments["id"], call.arguments["content"]
    conversation = await in_thread(_conversation, call)  # the memory may be shared
    corrected = await correct(call.resources, call.identity, memory_id, content, ModelCaller(conversation))
    return tools.correct_answer(corrected), corrected.as_row()


async def _forget(call: Call) -> Answer:
    """Forget a memory; the artifact has the fields of `Forgotten`."""
    memory_id = call.arguments["id"]
    was_there = await forget(call.resources, call.identity, memory_id, ModelCaller())
    return tools.forget_answer(memory_id, was_there), {"id": str(memory_id), "changed": was_there}


def _conversation(call: Call) -> list[Message]:
    """Return the messages that can prove that a user typed a sentence that a model wants to share.

    There are none without a session, and none in a role that people do not talk with: the "user" of a sub-agent is
    the model that gave it its task.
    """
    if call.identity.session_id is None or call.identity.role != SUPERVISOR:
        return []
    # there may be several speakers; only messages of the run's own user count
    return to_messages(call.messages, call.identity, several_speakers=True)


_TALKS: Final = frozenset({SUPERVISOR})
_WORKS: Final = frozenset({SUPERVISOR, "executor"})

#: Every tool of agents, in the order in which a model sees them.
AGENT_TOOLS: Final = (
    AgentTool("memory_query", None, tools.memory_query, _query),
    AgentTool("remember", _TALKS, tools.remember, partial(_remember, RememberRequest, remember)),
    AgentTool("correct", _TALKS, tools.correct, _correct),
    AgentTool("forget", _TALKS, tools.forget, _forget),
    AgentTool(
        "remember_procedure",
        _WORKS,
        tools.remember_procedure,
        partial(_remember, ProcedureRequest, remember_procedure),
    ),
)
