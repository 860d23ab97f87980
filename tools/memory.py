"""The tools of agents: `memory_query`, and those that write at a user's request."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from mnemic.memory.explicit.caller import ModelCaller
from mnemic.memory.explicit.correct import correct
from mnemic.memory.explicit.forget import forget
from mnemic.memory.explicit.remember import remember, remember_procedure
from mnemic.memory.messages.incoming import to_messages
from mnemic.memory.recall.query import query, result_line
from mnemic.memory.runtime.categories import Categories
from mnemic.memory.runtime.resources import Provider
from mnemic.prompts import tools as texts
from mnemic.state.formation import ProcedureRequest, Remembered, RememberRequest
from mnemic.state.identity import SUPERVISOR
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Message, SearchResult
from mnemic.tools.calling import Answer, Call, Tool, make_tool

#: What roles may call beside `memory_query`; every other role only asks.
WRITING: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"supervisor": ("remember", "correct", "forget", "remember_procedure"), "executor": ("remember_procedure",)}
)


def make_tools(
    provide: Provider,
    role: str,
    categories: Categories | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> list[BaseTool]:
    """The tools of an agent in this role; each acts for the identity in its run's context, in this role.

    Args:
        provide: what they work with.
        role: the role they act in, whatever the run's identity says.
        categories: of which the tools' descriptions name those that the role may read and write; None: they name none.
        loop: the event loop that opened Mnemic, which synchronous calls are handed to; None: they can only be awaited.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowed = categories.of_role(role).categories if categories else ()
    writable = categories.writable(role) if categories else ()
    parts: dict[str, tuple[type[BaseModel], Callable[[Call], Awaitable[Answer]]]] = {
        "memory_query": (texts.query_arguments(allowed), _query),
        "remember": (texts.remember_arguments(writable), partial(_keep, RememberRequest, remember)),
        "correct": (texts.CorrectArguments, _correct),
        "forget": (texts.ForgetArguments, _forget),
        "remember_procedure": (
            texts.described("remember_procedure", ProcedureRequest),
            partial(_keep, ProcedureRequest, remember_procedure),
        ),
    }
    names = ("memory_query", *WRITING.get(role, ()))
    return [make_tool(provide, role, Tool(name, texts.DESCRIPTIONS[name], *parts[name]), loop) for name in names]


async def _query(call: Call) -> Answer:
    """The artifact is the list of rows that the text shows."""
    request = MemoryQuery.model_validate(call.arguments, from_attributes=True)
    reader = call.identity.user_id
    rows = [_row(found, request, reader) for found in await query(call.resources, call.identity, request)]
    return texts.query_answer(rows), rows


def _row(found: SearchResult, request: MemoryQuery, reader: str | None) -> dict[str, Any]:
    row = {"id": str(found.item_id), "category": found.category, "text": result_line(found, request, reader)}
    if found.related_to is not None:
        row["related_to"] = str(found.related_to)
    if request.returns == "bullets":
        return row
    return row | {
        "kind": found.kind,
        "scope": found.scope_key,
        "dated": found.dated.isoformat(),
        "importance": found.importance,
        "score": round(found.score, 4),
        "session": found.session_id,
        "pinned": found.pinned,
        "tags": [*found.tags],
        "state": found.state,
        "supersedes": [str(memory_id) for memory_id in found.supersedes],
        "created": found.created_at.isoformat(),
        "updated": found.updated_at.isoformat(),
    }


async def _keep(
    kind: type[RememberRequest | ProcedureRequest], operation: Callable[..., Awaitable[Remembered]], call: Call
) -> Answer:
    """The artifact says what was stored, and for whom."""
    request = kind(**call.arguments)
    conversation = [] if request.scope == "user" else await asyncio.to_thread(_conversation, call)
    stored = await operation(call.resources, call.identity, request, ModelCaller(conversation))
    return texts.remember_answer(stored, request.scope), stored.as_row()


async def _correct(call: Call) -> Answer:
    """The artifact says what took whose place."""
    conversation = await asyncio.to_thread(_conversation, call)  # the memory may be shared
    memory_id, content = call.arguments["id"], call.arguments["content"]
    done = await correct(call.resources, call.identity, memory_id, content, ModelCaller(conversation))
    return texts.correct_answer(done), done.as_row()


async def _forget(call: Call) -> Answer:
    """The artifact says whether it was still there."""
    memory_id = call.arguments["id"]
    was_there = await forget(call.resources, call.identity, memory_id, ModelCaller())
    return texts.forget_answer(memory_id, was_there), {"id": str(memory_id), "forgotten": was_there}


def _conversation(call: Call) -> list[Message]:
    """The messages that count for the gate which a model's word on a wide scope has to pass.

    None where nothing is to be shared, without a session they could be of, and in a role that people do not talk with:
    its "user" is the model that gave it its task.
    """
    if call.identity.session_id is None or call.identity.role != SUPERVISOR:
        return []
    # others may have spoken; only what the run's own user typed counts
    return to_messages(call.messages, call.identity, several_speakers=True)
