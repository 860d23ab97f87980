"""Consent of the user to a correction or deletion that an agent's answer calls for."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from langchain_core.messages import AIMessage
from pydantic import ValidationError

from mnemic.memory.explicit.correct import correctable
from mnemic.memory.explicit.forget import forgettable
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import clean_text
from mnemic.prompts.explicit.tools import CorrectArguments, ForgetArguments
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from mnemic.state.supervisor import Question

_FindMemories = Callable[[Resources, Identity, Iterable[UUID]], Awaitable[list[Memory]]]
#: Tools that may need consent: the type of their arguments, and the function that finds the memories concerned.
_TOOLS: Final[dict[str, tuple[type[ForgetArguments], _FindMemories]]] = {
    "forget": (ForgetArguments, forgettable),
    "correct": (CorrectArguments, correctable),
}
#: Importance from which consent is needed. A core memory, which every prompt shows, always needs it.
_IMPORTANT: Final = 4


async def consent_questions(resources: Resources, identity: Identity, answer: AIMessage) -> dict[str, Question]:
    """Return the questions of consent to the user, by the ids of the calls."""
    questions: dict[str, Question] = {}
    for tool in _TOOLS:
        questions |= await _questions_of_tool(resources, identity, answer, tool)
    return questions


async def _questions_of_tool(
    resources: Resources, identity: Identity, answer: AIMessage, tool: str
) -> dict[str, Question]:
    arguments_type, find_memories = _TOOLS[tool]
    by_call: dict[str, ForgetArguments] = {}
    for call in answer.tool_calls:
        if call["name"] == tool:
            with suppress(ValidationError):  # the tool will refuse it
                by_call[str(call["id"])] = arguments_type.model_validate(call["args"])
    if not by_call:
        return {}
    ids = [arguments.id for arguments in by_call.values()]
    memories = {memory.id: memory for memory in await find_memories(resources, identity, ids)}
    questions: dict[str, Question] = {}
    for call_id, arguments in by_call.items():
        memory = memories.get(arguments.id)
        if memory and _needs_consent(memory):
            questions[call_id] = _question(memory, arguments)
    return questions


def _needs_consent(memory: Memory) -> bool:
    return memory.kind == "core" or memory.importance >= _IMPORTANT


def _question(memory: Memory, arguments: ForgetArguments) -> Question:
    question: Question = {"id": str(memory.id), "kind": memory.kind, "importance": memory.importance}
    if isinstance(arguments, CorrectArguments):
        question["content"] = clean_text(arguments.content)
    return question
