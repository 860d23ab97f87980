"""The tool `memory_query`: one request to the memory, under the allowlist of the agent's role."""

from collections.abc import Sequence
from typing import Any

from mnemic.operations.recall.query import query, result_line
from mnemic.prompts.tools import DESCRIPTIONS, query_answer, query_arguments
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Found
from mnemic.tools.calling import Answer, Call, Tool


def memory_query(allowed: Sequence[str] = ()) -> Tool:
    """The tool, whose description names these categories; its artifact is the list of rows that its text shows."""
    return Tool(
        name="memory_query",
        concept="memory.query",
        description=DESCRIPTIONS["memory_query"],
        arguments=query_arguments(allowed),
        act=_query,
    )


async def _query(call: Call) -> Answer:
    request = MemoryQuery.model_validate(call.arguments, from_attributes=True)
    rows = [_row(found, request) for found in await query(call.resources, call.identity, request)]
    return query_answer(rows), rows


def _row(found: Found, request: MemoryQuery) -> dict[str, Any]:
    row = {"id": str(found.item_id), "category": found.category, "text": result_line(found, request)}
    if found.related_to is not None:
        row["related_to"] = str(found.related_to)
    return row if request.returns == "bullets" else {**row, **_metadata(found)}


def _metadata(found: Found) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "scope": found.scope_key,
        "dated": found.dated.isoformat(),
        "importance": found.importance,
        "score": round(found.score, 4),
        "session": found.session_id,
    }
