"""Which model a tier has, and what is said when it cannot be had."""

import pytest
from pydantic import SecretStr

from mnemic.models.chat import ChatModels
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings, Tier
from tests.support.loopback import LoopbackModel


def test_without_a_key_the_offline_rules_form_memories() -> None:
    models = ChatModels(Settings())

    assert models.describe() == "offline rules"
    assert [models.get(tier) for tier in ("fast", "slow", "agent")] == [None, None, None]


@pytest.mark.parametrize(
    ("settings", "description"),
    [
        (Settings(api_key=SecretStr("k")), "openai:gpt-5-mini / openai:gpt-5.1"),
        (Settings(fast_model="openai:a", slow_model="openai:a"), "openai:a"),
        (Settings(fast_model="offline", slow_model="openai:b"), "offline rules / openai:b"),
    ],
)
def test_the_models_in_use_are_named(settings: Settings, description: str) -> None:
    assert ChatModels(settings).describe() == description


def test_a_tier_has_one_model_with_the_configured_time_limit() -> None:
    models = ChatModels(Settings(api_key=SecretStr("k"), model_timeout_seconds=7))

    model = models.get("slow")

    assert model is not None
    assert model is models.get("slow")
    assert getattr(model, "model_name", None) == "gpt-5.1"
    assert getattr(model, "request_timeout", None) == 7


@pytest.mark.parametrize("tier", ["fast", "slow", "agent"])
def test_what_a_model_writes_is_kept_out_of_a_hosts_stream_unless_it_is_to_be_shown(tier: Tier) -> None:
    models = ChatModels(Settings(api_key=SecretStr("k")))
    made = [models.get(tier), models.get(tier, shown=True)]
    assert [(model.tags, model.disable_streaming) for model in made if model] == [(["nostream"], True), (None, False)]


def test_an_agents_own_model_is_made_once_for_all_who_name_it() -> None:
    models = ChatModels(Settings(api_key=SecretStr("k"), agent_model="openai:common"))
    own = models.with_settings(Settings(api_key=SecretStr("k"), agent_model="openai:own"))
    again = models.with_settings(Settings(api_key=SecretStr("k"), agent_model="openai:own"))

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

        answer = await model.ainvoke("hello")

    assert answer.text == "good morning"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("openai:gpt-5-mini", "MNEMIC_FAST_MODEL names an OpenAI model, and there is no key"),
        ("nowhere:model", "which cannot be used"),
        ("anthropic:model", "its package is missing.*langchain-anthropic"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused_with_what_to_do(name: str, problem: str) -> None:
    models = ChatModels(Settings(fast_model=name))

    with pytest.raises(ConfigurationError, match=problem):
        models.get("fast")
