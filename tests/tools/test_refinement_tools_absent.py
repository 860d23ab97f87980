"""In a conversation there are no refinement tools: no role and no method has what they do, and calls of them fail."""

from typing import Any

import psycopg

from mnemic.prompts.refine import TOOLS
from mnemic.service.memory import Mnemic
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import ANA, KEY, SHORT, complete, delete, keep, merge, protect, update
from tests.support.tool_calls import called, host

CALLS = (merge(1, 2), update(1, "Other words."), delete(1), protect(1), complete("Done."))


def check_tools(memory: Mnemic) -> None:
    for role in memory.resources.categories.allowlists:
        assert not TOOLS.keys() & {tool.name for tool in (*memory.tools(role), *memory.middleware(role).tools)}


async def test_no_role_has_one_and_a_model_that_calls_one_in_a_conversation_is_told_that_there_is_none(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    assert {name for name, _ in CALLS} == TOOLS.keys() - {"search_memories"}
    check_tools(memory)
    await keep(memory, SHORT, "Ana wants tables.")
    before = superuser.execute("select to_jsonb(m) from mnemic.memories m order by id").fetchall()

    for role in ("supervisor", "executor"):
        for call in CALLS:
            answer = await called(host(memory.tools(role)), ANA, *call)
            assert answer.status == "error"
    assert superuser.execute("select to_jsonb(m) from mnemic.memories m order by id").fetchall() == before


async def test_nor_is_one_there_while_a_session_runs(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, SHORT)
    seen: list[bool] = []

    def meanwhile(_: Any) -> Any:
        check_tools(memory)
        seen.append(True)
        return {"content": "Done."}

    model.answer(lambda request: bool(request.get("tools")), meanwhile)
    await memory.refine(ANA, KEY, force=True)
    check_tools(memory)

    assert seen == [True]
