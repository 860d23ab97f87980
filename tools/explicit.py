"""The tools that write at a user's request: `remember`, `remember_procedure`, `forget`."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from mnemic.operations.explicit.forget import forget
from mnemic.operations.explicit.remember import remember, remember_procedure
from mnemic.operations.messages.incoming import INSTRUCTIONS, IncomingMessage, to_messages
from mnemic.policy.formation.orders import gives_orders
from mnemic.prompts.explicit import (
    FORGET,
    REMEMBER,
    REMEMBER_PROCEDURE,
    ForgetArguments,
    forget_answer,
    procedure_arguments,
    remember_answer,
    remember_arguments,
)
from mnemic.state.explicit import ExplicitScope, ProcedureRequest, RememberRequest
from mnemic.state.identity import SUPERVISOR
from mnemic.state.records import Message
from mnemic.tools.calling import Answer, Call, Tool


def remember_tool(writable: Sequence[str] = ()) -> Tool:
    """One fact, or one core memory, of these categories; the artifact says what was stored, and for whom."""
    return Tool(name="remember", description=REMEMBER, arguments=remember_arguments(writable), act=_remember)


def procedure_tool() -> Tool:
    """Numbered steps; the artifact says what was stored, and for whom."""
    return Tool(
        name="remember_procedure",
        description=REMEMBER_PROCEDURE,
        arguments=procedure_arguments(),
        act=_remember_procedure,
    )


def forget_tool() -> Tool:
    """One memory of the user or the session; the artifact says whether it was still there."""
    return Tool(name="forget", description=FORGET, arguments=ForgetArguments, act=_forget)


async def _remember(call: Call) -> Answer:
    request = RememberRequest(**call.arguments)
    conversation = await _conversation(call, request.scope)
    stored = await remember(call.resources, call.identity, request, conversation)
    return remember_answer(stored, request.scope), stored.as_row()


async def _remember_procedure(call: Call) -> Answer:
    request = ProcedureRequest(**call.arguments)
    conversation = await _conversation(call, request.scope)
    stored = await remember_procedure(call.resources, call.identity, request, conversation)
    return remember_answer(stored, request.scope), stored.as_row()


async def _forget(call: Call) -> Answer:
    memory_id = call.arguments["id"]
    was_there = await forget(call.resources, call.identity, memory_id, by_model=True)
    return forget_answer(memory_id, was_there), {"id": str(memory_id), "forgotten": was_there}


async def _conversation(call: Call, scope: ExplicitScope) -> list[Message]:
    """The messages that count for the gate which a model's word on a wide scope has to pass.

    None where nothing is to be shared, without a session they could be of, and in a role that people do not talk with:
    its "user" is the model that gave it its task. None either where anything that the model has read gives orders to
    the memory, recalled memories and what looks like them included.
    """
    if scope == "user" or call.identity.session_id is None or call.identity.role != SUPERVISOR:
        return []
    return await asyncio.to_thread(_unless_ordered, call)


def _unless_ordered(call: Call) -> list[Message]:
    incoming = [IncomingMessage.of(message) for message in call.messages]
    if any(gives_orders(message.text) for message in incoming if message.role not in INSTRUCTIONS):
        return []
    # that a user said it is what counts, not which: nothing becomes anybody's own here
    return to_messages(call.messages, call.identity, now=datetime.now(UTC), several_speakers=True)
