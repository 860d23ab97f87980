"""The tools of an agent as a model reads them: what they take, what they answer, and how they refuse."""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from mnemic.prompts.attribution import signature_of_others
from mnemic.prompts.conversation import single_line
from mnemic.prompts.loader import load_texts
from mnemic.prompts.recall.memory_context import PREAMBLE
from mnemic.state.checking import WHOLE_CHARACTERS
from mnemic.state.formation import Corrected, ExplicitScope, Remembered, RememberRequest
from mnemic.state.identity import split_scope_key
from mnemic.state.kinds import long_date
from mnemic.state.query import MemoryFilters, MemoryQuery

_TEXTS: Final = load_texts("tools")
#: What each tool is for, by its name.
DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType({name: text for name, (text, _) in _TEXTS.items()})
#: What to do about a text that is not written as a memory has to be, by what is wrong with it.
PROBLEMS: Final[Mapping[str, str]] = MappingProxyType(_TEXTS["problems"][1])
_SHARERS: Final[Mapping[str, str]] = MappingProxyType(
    {"user": "this user alone", "group": "the group", "agent": "everyone this agent talks to"}
)
_NOT_SHARED: Final = (
    " Others get a whole sentence that this user typed in this conversation: pass that sentence word for word, from its"
    " first word to its last, if nothing in it is private or personal."
)
_NOTHING: Final = "Nothing is remembered that fits this request."
NO_MEMORY = "The memory cannot be reached now. Go on without it, and do not try again in this turn."
NO_EMBEDDER = 'The question could not be compared by meaning. Ask again with search_type "text" and no threshold.'
NO_LOOP = (
    "The memory cannot be reached from here: the application has to await the agent (ainvoke), or run it in a thread "
    "beside the event loop that opened the memory. Go on without it."
)


class Arguments(BaseModel):
    """What a model sends: an unknown argument is left out, and null stands for the default.

    So nothing but the named arguments reaches a tool, whatever else a model writes beside them.
    """

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


class Part(Arguments):
    """What a model sends within an argument; there an unknown name is refused, for it may have been meant to narrow."""

    model_config = ConfigDict(extra="forbid")


class ForgetArguments(Arguments):
    """What is to be forgotten."""

    id: UUID = Field(description=_TEXTS["forget"][1]["id"])


class CorrectArguments(ForgetArguments):
    """What is to be corrected, and what is right."""

    content: Annotated[str, WHOLE_CHARACTERS] = Field(
        description=_TEXTS["correct"][1]["content"], min_length=1, max_length=8000
    )


def query_arguments(allowed: Sequence[str] = ()) -> type[Arguments]:
    """The arguments of `memory_query`, with the categories that may be asked for, where they are known."""
    names = f" Choose among {', '.join(allowed)}; leave it out for all of them." if allowed else ""
    filters = described("filters", MemoryFilters, base=Part)
    return described("memory_query", MemoryQuery, parts={"filters": filters}, names={"categories": names})


def remember_arguments(writable: Sequence[str] = ()) -> type[BaseModel]:
    """The arguments of `remember`, with the categories to choose from, where they are known."""
    choice = f" One of {', '.join(writable)}." if writable else ""
    return described("remember", RememberRequest, names={"category": choice})


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
    rows = []
    for old in kept.near:
        text = f"[{long_date(old.dated)}] {single_line(old.content)}{signature_of_others(old, None)}"
        rows.append({"id": str(old.id), "text": text})
    advice = "If it replaces one of these, call correct with that one's id and the same content."
    return f"{query_answer(rows)}\n{answer} {advice}"


def correct_answer(done: Corrected) -> str:
    """What says it now."""
    if done.id == done.old_id:
        return f"{done.old_id} says that already. Nothing was changed."
    what = f"by {done.id or 'another one'}{', which said so already' if done.known else ''}"
    return f"{done.old_id} is replaced {what}."


def forget_answer(memory_id: UUID, was_there: bool) -> str:
    """Whether it was still there."""
    return f"{memory_id} is forgotten." if was_there else f"{memory_id} was gone already."


def described(
    tool: str,
    request: type[BaseModel],
    *,
    base: type[Arguments] = Arguments,
    parts: Mapping[str, type[Part]] = MappingProxyType({}),
    names: Mapping[str, str] = MappingProxyType({}),
) -> type[Any]:
    """The fields of a request with their bounds, each with its sentence in `tools.md`.

    What a model is told of it goes into every one of its calls, so it says nothing of null.

    Args:
        tool: below which heading the sentences stand.
        request: whose fields they are.
        base: what becomes of unknown names.
        parts: described types of the fields that have fields of their own.
        names: what stands behind the sentence of a field: names to choose among.
    """
    fields: dict[str, Any] = {}
    for name, field in request.model_fields.items():
        part, sentence = parts.get(name), _TEXTS[tool][1][name] + names.get(name, "")
        default: dict[str, Any] = {}
        if not field.is_required():
            is_told = isinstance(field.default, str | int)  # of a factory a schema says nothing
            default = {"default": field.default} if is_told else {"default_factory": part or (lambda: None)}
        shown: Any = Field(description=sentence, alias=field.alias, **default)
        kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
        without_none = kinds[0] if NoneType in get_args(field.annotation) else field.annotation
        fields[name] = Annotated[part or without_none, *field.metadata, shown]
    return create_model(request.__name__, __base__=base, **fields)


def refused_argument(problem: str) -> str:
    """Names the mistake, so that the next call can avoid it."""
    return f"Refused: {problem.rstrip('.')}. Call again without that mistake, or go on without it."


def unknown_tool(names: Iterable[str]) -> str:
    """A call of a tool that does not exist; the names are those that do."""
    return refused_argument(f"there is no tool of this name; there are {', '.join(names)}")


def not_carried_out(most: int) -> str:
    """A call beyond the most that are carried out of one answer."""
    return f"Not carried out: of one answer the first {most} calls are. Send it again."


UNREADABLE_CALL = refused_argument("the arguments could not be read: send complete JSON that fits the tool")
