"""Which model a tier has, and what is said when it cannot be had."""

import pytest
from pydantic import SecretStr

from mnemic.models.chat import ChatModels
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings, Tier
from tests.support.loopback import LoopbackModel

KEY = SecretStr("k")


@pytest.mark.parametrize(
    ("settings", "description"),
    [
        (Settings(), "offline rules"),
        (Settings(api_key=KEY), "openai:gpt-5-mini / openai:gpt-5.1"),
        (Settings(fast_model="openai:a", slow_model="openai:a"), "openai:a"),
        (Settings(fast_model="offline", slow_model="openai:b"), "offline rules / openai:b"),
    ],
)
def test_the_models_in_use_are_named(settings: Settings, description: str) -> None:
    assert ChatModels(settings).describe() == description


def test_without_a_key_there_is_no_model() -> None:
    assert [ChatModels(Settings()).get(tier) for tier in ("fast", "slow", "agent")] == [None, None, None]


@pytest.mark.parametrize("tier", ["fast", "slow", "agent"])
def test_a_tier_has_one_model_which_a_hosts_stream_does_not_show_unless_it_is_to_be_shown(tier: Tier) -> None:
    models = ChatModels(Settings(api_key=KEY, slow_model="openai:slow", model_timeout_seconds=7))
    made = [models.get(tier), models.get(tier, shown=True)]

    assert [(model.tags, model.disable_streaming) for model in made if model] == [(["nostream"], True), (None, False)]
    assert made[0] is models.get(tier)
    assert getattr(made[0], "request_timeout", None) == 7
    assert getattr(models.get("slow"), "model_name", None) == "slow"


def test_an_agents_own_model_is_made_once_for_all_who_name_it() -> None:
    models = ChatModels(Settings(api_key=KEY, agent_model="openai:common"))
    own = models.with_settings(Settings(api_key=KEY, agent_model="openai:own"))
    again = models.with_settings(Settings(api_key=KEY, agent_model="openai:own"))

    assert getattr(own.get("agent"), "model_name", None) == "own"
    assert own.get("agent") is again.get("agent")
    assert own.get("slow") is models.get("slow")
    assert getattr(models.get("agent"), "model_name", None) == "common"
    assert models.with_settings(Settings(agent_model="offline")).get("agent") is None


async def test_a_base_url_alone_is_enough() -> None:
    with LoopbackModel() as server:
        server.answer("hello", "good morning")
        model = ChatModels(Settings(base_url=server.base_url)).get("agent")
        assert model is not None
        assert (await model.ainvoke("hello")).text == "good morning"


async def test_control_a_request_that_a_scripted_server_was_not_told_of_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="no route"), LoopbackModel() as server:
        server.reply_to("/chat/completions", {"model": "m", "messages": []})


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("openai:gpt-5-mini", "MNEMIC_FAST_MODEL names an OpenAI model, and there is no key"),
        ("nowhere:model", "which cannot be used"),
        ("anthropic:model", "its package is missing.*langchain-anthropic"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused_with_what_to_do(name: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        ChatModels(Settings(fast_model=name)).get("fast")
