"""The tools that write on purpose, as a model reads them, and what they answer."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from uuid import UUID

from pydantic import BaseModel, Field

from mnemic.prompts.conversation import as_data
from mnemic.prompts.described import Arguments, described
from mnemic.prompts.memory_context import PREAMBLE, long_date
from mnemic.state.formation import ExplicitScope, ProcedureRequest, Remembered, RememberRequest
from mnemic.state.identity import split_scope_key

REMEMBER: Final = (
    "Stores one memory for later conversations. Use it when the user asks you to remember something, or agrees on "
    "something that must hold from now on. What is said in passing is remembered without it."
)
REMEMBER_PROCEDURE: Final = (
    "Stores how something is done, step by step, for whoever does it next. Use it when the user asks for that, after a "
    "way of working has proved itself."
)
FORGET: Final = (
    "Forgets one memory of this user. Use it only when the user asks for that. First look up its id with memory_query. "
    "Protected memories and shared memories cannot be forgotten."
)
_REMEMBERED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content": "One complete sentence in the third person that names whom it is about; at most 30 words.",
        "category": "What it belongs to.",
        "kind": "fact: recalled when it is asked for. core: a commitment, rule or pattern that every prompt shows.",
        "importance": "1 trivial to 5 vital.",
        "scope": (
            "user, unless users of this conversation said the same themselves, for their group or for everyone this "
            "agent talks to."
        ),
        "private": "true where it was said in confidence.",
    }
)
_PROCEDURE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "title": "What it is for, in a few words.",
        "steps": "The steps in order, each one order in one sentence, without a number.",
        "scope": _REMEMBERED["scope"],
    }
)
_SHARERS: Final[Mapping[str, str]] = MappingProxyType(
    {"user": "this user alone", "group": "the group", "agent": "everyone this agent talks to"}
)
_NOT_SHARED: Final = (
    " What others see has to be in users' own words here, of some weight, with nothing personal or private in it."
)


class ForgetArguments(Arguments):
    """What is to be forgotten."""

    id: UUID = Field(description="The id of the memory, as memory_query shows it.")


def remember_arguments(writable: Sequence[str] = ()) -> type[BaseModel]:
    """The arguments of `remember`, with the categories to choose from, where they are known."""
    choice = f" One of {', '.join(writable)}." if writable else ""
    return described(RememberRequest, {**_REMEMBERED, "category": _REMEMBERED["category"] + choice})


def procedure_arguments() -> type[BaseModel]:
    """The arguments of `remember_procedure`."""
    return described(ProcedureRequest, _PROCEDURE)


def remember_answer(kept: Remembered, wanted: ExplicitScope) -> str:
    """What became of it, with what it may replace; that is shown as any recalled text is."""
    if kept.known:
        return f"Known already{f', as {kept.id}' if kept.id else ''}. Nothing was added."
    scope = split_scope_key(kept.scope_key)[0]
    answer = f"Kept as {kept.id} for {_SHARERS[scope]}.{'' if scope == wanted else _NOT_SHARED}"
    if not kept.near:
        return answer
    rows = [
        {"id": str(old.id), "text": f"[{long_date(old.dated)}] {as_data(' '.join(old.content.split()))}"}
        for old in kept.near
    ]
    return f"{PREAMBLE}\n{json.dumps(rows, ensure_ascii=False)}\n{answer} If it replaces one of these, forget that one."


def forget_answer(memory_id: UUID, was_there: bool) -> str:
    """Whether it was still there."""
    return f"{memory_id} is forgotten." if was_there else f"{memory_id} was gone already."
