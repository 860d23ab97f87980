"""The tool `memory_query` (seed B 6): one request to the memory, under the allowlist of the agent's role."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool

from mnemic.operations.recall.query import query, result_line
from mnemic.operations.run.resources import Resources
from mnemic.prompts.memory_query import DESCRIPTION, query_answer, query_arguments
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Found
from mnemic.tools.calling import Answer, Caller, make_tool


def memory_query(caller: Caller, allowed: Sequence[str] = ()) -> BaseTool:
    """The tool; its artifact is the list of rows that its text shows.

    Args:
        caller: for whom it is made.
        allowed: the categories that its description names.
    """
    return make_tool(
        caller,
        _ask,
        name="memory_query",
        concept="memory.query",
        description=DESCRIPTION,
        arguments=query_arguments(allowed),
    )


async def _ask(resources: Resources, identity: Identity, given: dict[str, Any], _: Sequence[Any]) -> Answer:
    request = MemoryQuery.model_validate(given, from_attributes=True)
    rows = [_row(found, request) for found in await query(resources, identity, request)]
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
