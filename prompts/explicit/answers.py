"""Answers of an agent's tools, and the advice about a text that cannot be stored."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from mnemic.prompts.conversation import signature_of_others, single_line
from mnemic.prompts.recall.memory_context import PREAMBLE
from mnemic.state.formation import Corrected, ExplicitScope, Remembered
from mnemic.state.identity import split_scope_key
from mnemic.state.times import long_date

#: Advice by the reason why a text cannot be stored.
PROBLEMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "empty": "it says nothing: write one complete sentence",
        "degenerate": "it repeats itself: write one complete sentence",
        "too_long": "it is too long: say one thing, a fact in at most 30 words and 280 characters, and the rest apart",
        "first_person": "it speaks as I or we: write it in the third person, with the name of whom it is about",
        "pronoun_start": "it begins with a pronoun: name whom or what it is about",
        "not_neutral": "it exclaims: write it in a neutral tone",
        "asks": "it only asks: state what is known, and ask the question with memory_query",
        "data": "it is data such as JSON: write each fact in it as one complete sentence",
    }
)
_SHARERS: Final[Mapping[str, str]] = MappingProxyType(
    {"user": "this user alone", "group": "the group", "agent": "everyone this agent talks to"}
)
_NOT_SHARED: Final = (
    " Others get a whole sentence that this user typed in this conversation: pass that sentence word for word, from its"
    " first word to its last, if nothing in it is private or personal."
)
_NOTHING: Final = "Nothing is remembered that fits this request."


def query_answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return search results for a model: a sentence that introduces them, then the rows as JSON on one line."""
    introduction = PREAMBLE if rows else _NOTHING
    return f"{introduction}\n{json.dumps(rows, ensure_ascii=False)}"


def remember_answer(remembered: Remembered, requested: ExplicitScope) -> str:
    """Return the answer to `remember`, with the memories that the new one may replace."""
    if remembered.known:
        place = f", as {remembered.id}" if remembered.id else ""
        return f"Known already{place}. Nothing was added."
    scope = split_scope_key(remembered.scope_key)[0]
    advice = "" if scope == requested else _NOT_SHARED
    answer = f"Kept as {remembered.id} for {_SHARERS[scope]}.{advice}"
    if not remembered.near:
        return answer
    rows = []
    for old in remembered.near:
        text = f"[{long_date(old.dated)}] {single_line(old.content)}{signature_of_others(old, None)}"
        rows.append({"id": str(old.id), "text": text})
    advice = "If it replaces one of these, call correct with that one's id and the same content."
    return f"{query_answer(rows)}\n{answer} {advice}"


def correct_answer(corrected: Corrected) -> str:
    """Return the answer to `correct`."""
    if corrected.id == corrected.old_id:
        return f"{corrected.old_id} says that already. Nothing was changed."
    known = ", which said so already" if corrected.known else ""
    return f"{corrected.old_id} is replaced by {corrected.id or 'another one'}{known}."


def forget_answer(memory_id: UUID, was_there: bool) -> str:
    """Return the answer to `forget`."""
    if was_there:
        return f"{memory_id} is forgotten."
    return f"{memory_id} was gone already."
