"""What a turn cost is recorded as what a step cost, and told to the session that took it."""

from typing import Any

import pytest
from langchain_core.tools import tool

from mnemic.models.steps import REFINE
from mnemic.operations.run.model_step import perform_turn
from mnemic.operations.run.resources import Resources
from mnemic.prompts.refine import RefineInput
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelError
from mnemic.state.records import Usage
from mnemic.state.refinement import Budget, Turn
from tests.support.loopback import calling, offering
from tests.support.scripted import scripted_model, scripted_resources, turns
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
INPUT = RefineInput(
    persona="", scope="user", owner="Ana", budget=Budget(9000, 5000, 0, 2000, 500), batch=1, batches=1, ledger=()
)


@tool
def complete_refinement(summary: str) -> str:
    """Ends the session."""
    raise AssertionError("the tools are shown to the model, and not called")


async def take(resources: Resources, step: Any = REFINE, **settings: Any) -> tuple[Turn, int]:
    models = resources.models.with_settings(resources.settings.model_copy(update=settings))
    return await perform_turn(resources, ANA, step, INPUT, (), [complete_refinement], models)


async def spent(resources: Resources) -> list[Usage]:
    return [row for row in await Mnemic(resources).usage(ANA) if row.step == "refine"]


async def test_the_tokens_of_a_turn_are_returned_and_recorded_for_the_agents_own_model(clean_db: Clone) -> None:
    with scripted_model() as model:
        model.answer(offering("complete_refinement"), calling(("complete_refinement", {"summary": "Shorter."})))
        async with scripted_resources(clean_db, model) as resources:
            await Mnemic(resources).observe(ANA, turns("Hello."))  # the agent is known from now on
            turn, tokens = await take(resources, agent_model="openai:own-voice")
            await take(resources, agent_model="openai:own-voice")
            rows = await spent(resources)

    assert [call.name for call in turn.calls] == ["complete_refinement"]
    assert tokens == 110
    assert [request["model"] for request in model.chat_requests] == ["own-voice"] * 2
    assert [(row.model, row.calls, row.input_tokens, row.output_tokens) for row in rows] == [
        ("openai:own-voice", 2, 200, 20)
    ]


async def test_a_turn_by_the_rule_costs_nothing(clean_db: Clone) -> None:
    step = REFINE._replace(offline=lambda _: Turn(text="by the rule"))
    with scripted_model() as model:
        async with scripted_resources(clean_db, model) as resources:
            assert await take(resources, step, agent_model="offline") == (Turn(text="by the rule"), 0)
            assert await spent(resources) == []


async def test_a_turn_that_fails_leaves_nothing_behind(clean_db: Clone) -> None:
    with scripted_model() as model:
        model.answer(offering("complete_refinement"), 401)
        async with scripted_resources(clean_db, model) as resources:
            with pytest.raises(ModelError, match="key refused"):
                await take(resources)
            assert await spent(resources) == []
