"""The example graph of the README: a host's own graph with memory in it, under every durability."""

import textwrap
from pathlib import Path
from typing import Literal

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from mnemic.examples import compose
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.server import Clone

ROOT = Path(__file__).parents[2]
DURABILITIES: tuple[Literal["sync", "async", "exit"], ...] = ("sync", "async", "exit")


def who(session: str) -> Identity:
    return Identity(agent_id="guide", user_id="ana", session_id=session)


def thread(session: str) -> RunnableConfig:
    return {"configurable": {"thread_id": session}}


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_what_one_session_hears_the_next_one_recalls(
    clean_db: Clone, durability: Literal["sync", "async", "exit"]
) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        graph = compose.build(memory).compile(checkpointer=InMemorySaver())
        for said in ("I moved to Ghent.", "My sister Lea is allergic to nuts."):
            await graph.ainvoke(
                {"messages": [HumanMessage(said)], "context": ""}, thread("1"), context=who("1"), durability=durability
            )
        await memory.form(who("1"))
        question = HumanMessage("Do you remember what my sister is allergic to?")
        turn = await graph.ainvoke(
            {"messages": [question], "context": ""}, thread("2"), context=who("2"), durability=durability
        )
    assert "allergic to nuts" in turn["messages"][-1].text


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_host_may_form_and_consolidate_in_a_node(
    clean_db: Clone, durability: Literal["sync", "async", "exit"]
) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:

        async def close(state: MessagesState, runtime: Runtime[Identity]) -> None:
            await memory.observe(runtime.context, state["messages"])
            runs = await memory.form(runtime.context)
            assert sum(run["formed"] for run in runs) == 1
            result = await memory.consolidate(runtime.context, "user:ana", force=True)
            assert result["outcome"] in {"saved", "not_due"}

        builder = StateGraph(MessagesState, context_schema=Identity)
        builder.add_node(close)
        builder.add_edge(START, "close")
        graph = builder.compile(checkpointer=InMemorySaver())
        heard: MessagesState = {"messages": [HumanMessage("I moved to Ghent.")]}
        await graph.ainvoke(heard, thread("1"), context=who("1"), durability=durability)


async def test_the_example_runs_without_a_key(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    await compose.main()
    assert "nuts" in capsys.readouterr().out


def test_the_readme_shows_the_code_that_is_tested() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```python\n", 1)[1].split("```", 1)[0]
    code = textwrap.dedent((ROOT / "examples" / "compose.py").read_text(encoding="utf-8"))
    assert textwrap.indent(shown, "    ") in code


def test_the_readme_begins_with_the_two_commands_that_need_nothing_else() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [part.split("```", 1)[0].strip() for part in readme.split("```sh\n")[1:]]
    assert blocks[:2] == ["make demo", "make test"]
