"""The examples: each runs without a key; what the README and the guide show stands in one of them."""

import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from mnemic.examples import agent, compose, explicit, unsure
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.server import Clone
from tests.support.threads import DURABILITIES, Durability

ROOT = Path(__file__).parents[2]


def who(session: str) -> Identity:
    return Identity(agent_id="guide", user_id="ana", session_id=session)


def thread(session: str) -> RunnableConfig:
    return {"configurable": {"thread_id": session}}


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_what_one_session_hears_the_next_one_recalls(clean_db: Clone, durability: Durability) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        graph = compose.build(memory).compile(checkpointer=InMemorySaver())
        for said in ("I moved to Ghent.", "My sister Lea is allergic to nuts."):
            await graph.ainvoke(
                {"messages": [HumanMessage(said)]}, thread("1"), context=who("1"), durability=durability
            )
        await memory.form(who("1"))
        question = HumanMessage("Do you remember what my sister is allergic to?")
        turn = await graph.ainvoke({"messages": [question]}, thread("2"), context=who("2"), durability=durability)
    assert "allergic to nuts" in turn["messages"][-1].text


@pytest.fixture
def offline(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example finds in its environment: a database, and neither a key nor an endpoint."""
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("example", "printed"),
    [
        (compose, ["allergic to nuts"]),
        (unsure, ["allergic to nuts", "1 of 4 turns searched"]),
        (
            explicit,
            [
                "found, and forgotten: Ana sails to Ryd in May.",
                "supervisor: Ana wants short answers.",
                "planner: nothing",
                "stylist: Ana wants short answers.",
            ],
        ),
    ],
)
async def test_an_example_runs_without_a_key(
    example: ModuleType, printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    await example.main()
    out = capsys.readouterr().out
    assert [text for text in printed if text not in out] == []


@pytest.mark.usefixtures("offline")
async def test_the_agent_is_recalled_for_and_asks_by_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    await agent.main()
    recalled, asked = capsys.readouterr().out.split("A model would answer here")[1:]
    assert "<RetrievedMemories>" in recalled
    assert "allergic to nuts" in recalled
    assert "<RetrievedMemories>" not in asked
    assert "allergic to nuts" in asked


def test_the_readme_and_the_guide_show_the_code_that_is_tested() -> None:
    examples = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py"))
    for name, blocks in (("README.md", 3), ("docs/integration.md", 3)):
        shown = [part.split("```", 1)[0] for part in (ROOT / name).read_text(encoding="utf-8").split("```python\n")[1:]]
        assert len(shown) == blocks
        for code in shown:
            assert any(textwrap.indent(code, " " * depth) in examples for depth in (0, 4, 8)), code


def test_the_readme_begins_with_the_two_commands_that_need_nothing_else() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [part.split("```", 1)[0].strip() for part in readme.split("```sh\n")[1:]]
    assert blocks[:2] == ["make demo", "make test"]
