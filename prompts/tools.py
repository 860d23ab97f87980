"""The tools of an agent as a model reads them, and what they answer."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, Field

from mnemic.prompts.conversation import single_line
from mnemic.prompts.described import Arguments, Part, described
from mnemic.prompts.loader import load_texts
from mnemic.prompts.memory_context import PREAMBLE, long_date
from mnemic.state.formation import ExplicitScope, ProcedureRequest, Remembered, RememberRequest
from mnemic.state.identity import split_scope_key
from mnemic.state.query import MemoryFilters, MemoryQuery

_TEXTS: Final = load_texts("tools")
#: What each tool is for, by its name.
DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType({name: text for name, (text, _) in _TEXTS.items()})
_SHARERS: Final[Mapping[str, str]] = MappingProxyType(
    {"user": "this user alone", "group": "the group", "agent": "everyone this agent talks to"}
)
_NOT_SHARED: Final = (
    " What others see has to be in users' own words here, of some weight, with nothing personal or private in it."
)
_NOTHING: Final = "Nothing is remembered that fits this request."


class ForgetArguments(Arguments):
    """What is to be forgotten."""

    id: UUID = Field(description=_TEXTS["forget"][1]["id"])


def query_arguments(allowed: Sequence[str] = ()) -> type[Arguments]:
    """The arguments of `memory_query`, with the categories that may be asked for, where they are known."""
    names = f" Choose among {', '.join(allowed)}; leave it out for all of them." if allowed else ""
    filters = described(MemoryFilters, _TEXTS["filters"][1], base=Part)
    return described(MemoryQuery, _with_names("memory_query", "categories", names), parts={"filters": filters})


def remember_arguments(writable: Sequence[str] = ()) -> type[BaseModel]:
    """The arguments of `remember`, with the categories to choose from, where they are known."""
    choice = f" One of {', '.join(writable)}." if writable else ""
    return described(RememberRequest, _with_names("remember", "category", choice))


def procedure_arguments() -> type[BaseModel]:
    """The arguments of `remember_procedure`."""
    return described(ProcedureRequest, _TEXTS["remember_procedure"][1])


def query_answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the model reads: a sentence that says what it is, then the rows as JSON on one line."""
    return f"{PREAMBLE if rows else _NOTHING}\n{json.dumps(rows, ensure_ascii=False)}"


def remember_answer(kept: Remembered, wanted: ExplicitScope) -> str:
    """What became of it, with what it may replace; that is shown as any recalled text is."""
    if kept.known:
        return f"Known already{f', as {kept.id}' if kept.id else ''}. Nothing was added."
    scope = split_scope_key(kept.scope_key)[0]
    answer = f"Kept as {kept.id} for {_SHARERS[scope]}.{'' if scope == wanted else _NOT_SHARED}"
    if not kept.near:
        return answer
    rows = [{"id": str(old.id), "text": f"[{long_date(old.dated)}] {single_line(old.content)}"} for old in kept.near]
    return f"{query_answer(rows)}\n{answer} If it replaces one of these, forget that one."


def forget_answer(memory_id: UUID, was_there: bool) -> str:
    """Whether it was still there."""
    return f"{memory_id} is forgotten." if was_there else f"{memory_id} was gone already."


def _with_names(tool: str, argument: str, names: str) -> dict[str, str]:
    """The sentences on a tool's arguments, with names to choose among behind that on one of them."""
    sentences = _TEXTS[tool][1]
    return {**sentences, argument: sentences[argument] + names}
