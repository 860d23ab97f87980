"""In a conversation there are no refinement tools: no role and no method has what they do, and calls of them fail."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
import pytest
from langchain_core.tools import BaseTool, tool

from mnemic.prompts.refinement_tools import TOOLS
from mnemic.service.memory import Mnemic
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import ANA, KEY, SHORT, complete, delete, keep, merge, protect, update
from tests.support.tool_calls import called, host

CALLS = (merge(1, 2), update(1, "Other words."), delete(1), protect(1), complete("Done."))


def is_refining(name: str, arguments: Iterable[str]) -> bool:
    """Whether something merges or rewrites memories, by its name or by what it takes."""
    takes = set(arguments)
    return name in TOOLS or bool({"ids_to_merge", "new_content"} & takes) or {"id", "content"} <= takes


def tools_of(memory: Mnemic, role: str) -> Sequence[BaseTool]:
    return [*memory.tools(role), *memory.middleware(role).tools]


def check_tools(memory: Mnemic) -> None:
    for role in memory.resources.categories.allowlists:
        for one in tools_of(memory, role):
            assert not is_refining(one.name, one.args), f"{role} has {one.name}"


def check_methods() -> None:
    for name, method in inspect.getmembers(Mnemic, inspect.isfunction):
        if not name.startswith("_"):
            takes = {parameter.removeprefix("memory_") for parameter in inspect.signature(method).parameters}
            assert not is_refining(name, takes), name
            assert name not in ("protect", "unprotect")


def test_no_method_does_what_they_do() -> None:
    check_methods()


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


@tool
def delete_memory(id: int) -> str:  # noqa: A002 - its name
    """Deletes a memory."""
    return "gone"


@tool
def shorten(id: int, content: str) -> str:  # noqa: A002 - its name
    """Says it in other words."""
    return content


@pytest.mark.parametrize("added", [delete_memory, shorten], ids=["by name", "by what it takes"])
def test_control_such_a_tool_would_be_seen(memory: Mnemic, monkeypatch: pytest.MonkeyPatch, added: BaseTool) -> None:
    tools = Mnemic.tools
    monkeypatch.setattr(Mnemic, "tools", lambda self, role="supervisor": [*tools(self, role), added])

    with pytest.raises(AssertionError):
        check_tools(memory)


@pytest.mark.parametrize(
    ("name", "method"),
    [("delete_memory", lambda self, memory_id: None), ("rephrase", lambda self, memory_id, content: None)],
)
def test_control_such_a_method_would_be_seen(monkeypatch: pytest.MonkeyPatch, name: str, method: Any) -> None:
    monkeypatch.setattr(Mnemic, name, method, raising=False)

    with pytest.raises(AssertionError):
        check_methods()
