"""The first mistakes of a newcomer: each error names the right way."""

from typing import Any

import pytest

from mnemic import Administration, Mnemic, SyncAdministration, SyncMnemic
from mnemic.state.errors import InvalidInputError, MissingIdentityError
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
OPENED: list[Any] = [Mnemic, Administration]


@pytest.mark.parametrize("opened", OPENED)
async def test_the_wrong_statement_names_both_right_ones(opened: Any) -> None:
    ways = [f"async with {opened.__name__}.open()", f"with {opened.__name__}.open_sync()"]
    with pytest.raises(TypeError) as refused, opened.open():
        pass
    assert [way for way in ways if way not in str(refused.value)] == []
    with pytest.raises(TypeError) as refused:
        async with opened.open_sync():
            pass
    assert [way for way in ways if way not in str(refused.value)] == []


@pytest.mark.parametrize("opened", [*OPENED, SyncMnemic, SyncAdministration])
@pytest.mark.parametrize("arguments", [(), ("postgresql://localhost/mnemic",)])
def test_a_class_that_is_called_names_the_way_to_open_it(opened: Any, arguments: tuple[str, ...]) -> None:
    name = opened.__name__.removeprefix("Sync")
    with pytest.raises(TypeError, match=rf"async with {name}\.open\(\).*with {name}\.open_sync\(\)"):
        opened(*arguments)


@pytest.mark.parametrize("given", [("Ana likes tea.",), ("Ana likes tea.", ANA), (None, "Ana likes tea."), ()])
async def test_a_method_names_its_first_argument(memory: Any, given: tuple[object, ...]) -> None:
    for method in (memory.remember, memory.query, memory.recall, memory.observe):
        with pytest.raises((MissingIdentityError, InvalidInputError)) as refused:
            await method(*given, user_id="ana")
        assert "first argument" in str(refused.value)
        assert "Identity(agent_id=" in str(refused.value)
        assert "context=" not in str(refused.value)
        assert "tea" not in str(refused.value)


@pytest.mark.parametrize(
    ("context", "error", "hint"),
    [
        (None, MissingIdentityError, r"context=Identity\("),
        ("ana", MissingIdentityError, r"context=Identity\("),
        ({}, InvalidInputError, "agent_id: is missing"),  # LangGraph makes an identity of a dict
    ],
)
async def test_a_run_names_its_context(memory: Mnemic, context: Any, error: type[Exception], hint: str) -> None:
    graph: Any = memory.graphs.supervisor()
    with pytest.raises(error, match=hint):
        await graph.ainvoke({"messages": [("user", "Hello.")]}, context=context)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("topk", "did you mean top_k?"), ("category", "did you mean categories?"), ("zzz", "search_type")],
)
async def test_an_unknown_argument_names_the_nearest_one(memory: Any, wrong: str, hint: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{wrong}: ") as refused:
        await memory.query(ANA, "tea", **{wrong: 3})
    assert hint in str(refused.value)


async def test_an_error_of_the_content_comes_before_one_of_the_category(memory: Any) -> None:
    for category in (None, "boats", "profile"):
        with pytest.raises(InvalidInputError, match=r"^content"):
            await memory.remember(ANA, "I like tea.", category=category)
    with pytest.raises(InvalidInputError, match=r"^category: .*profile"):
        await memory.remember(ANA, "Ana likes tea.")
