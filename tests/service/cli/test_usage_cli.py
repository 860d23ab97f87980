"""`mnemic usage` prints what the server counted, of every step, and what it costs."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnemic.models.answers import cost_of
from mnemic.models.loopback import Request, completion
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import ModelPrice
from tests.service.cli.conftest import Command
from tests.support import loopback
from tests.support.agents import says
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
)

AGENT = ("--agent", "guide")
WHO = (*AGENT, "--user", "ana")
TEA, COFFEE = "Ana prefers tea to coffee.", "Ana prefers coffee to tea."
PRICES = {
    "openai:gpt-fast": {"input": 1.0, "output": 10.0},
    "openai:gpt-slow": {"input": 2.0, "output": 20.0},
    "openai:gpt-agent": {"input": 4.0, "output": 40.0},
}
STEPS = {"extract_facts", "decide", "extract_reflections", "write_consolidation", "converse", "refine"}
_TOKENS = re.compile(r'"prompt_tokens": (\d+), "completion_tokens": (\d+)')


@pytest.fixture
def counted(model: LoopbackModel, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """Tokens in and out that the server has told of, by model; no two answers have the same."""
    found: Counter[tuple[str, str]] = Counter()
    usual = model.reply_to

    def varied(request: Request, message: dict[str, Any], finish_reason: str | None, _: object) -> dict[str, Any]:
        number = len(model.chat_requests)
        return completion(request, message, finish_reason, (100 + number, 10 + 2 * number))

    def reply_to(path: str, request: dict[str, Any]) -> Any:
        status, kind, body = usual(path, request)
        told = _TOKENS.search(body.decode())
        for side, tokens in zip(("in", "out"), told.groups() if told else (), strict=False):
            found[request["model"], side] += int(tokens)
        return status, kind, body

    monkeypatch.setattr(loopback, "completion", varied)
    monkeypatch.setattr(model, "reply_to", reply_to)
    return found


def tokens_in(counted: Counter[tuple[str, str]]) -> int:
    return sum(tokens for (_, side), tokens in counted.items() if side == "in")


def use_every_step(mnemic: Command, model: LoopbackModel, counted: Counter[tuple[str, str]], directory: Path) -> None:
    """Commands that together ask for every step, streams included; what they print of each run is what that used."""
    model.answer(FACTS, facts(fact(TEA)), facts(fact(COFFEE)), facts())
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=COFFEE)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]), reflections())
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    for session in ("monday", "tuesday"):
        file = directory / f"{session}.jsonl"
        file.write_text(json.dumps({"session": session, "role": "user", "content": "I prefer what I prefer."}))
        before = tokens_in(counted)
        printed = mnemic("form", file, *WHO).stdout
        assert f"models: {tokens_in(counted) - before:,} tokens in" in printed
    says(model, calling(("memory_query", {"query": "tea"})), "Coffee it is, as I have learned.")
    mnemic("chat", *WHO, typed="What do I drink?")
    model.answer(offering("complete_refinement"), calling(("complete_refinement", {"summary": "Nothing to do."})))
    before = tokens_in(counted)
    printed = mnemic("refine", "user:ana", *AGENT, "--force").stdout
    assert f"models: {tokens_in(counted) - before:,} tokens in" in printed


def test_printed_usage_equals_the_server_count_of_every_step_and_stream(
    mnemic: Command,
    online: dict[str, str],
    model: LoopbackModel,
    counted: Counter[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MNEMIC_MODEL_PRICES", json.dumps(PRICES))
    monkeypatch.setenv("MNEMIC_USER_THRESHOLD", "1")
    use_every_step(mnemic, model, counted, tmp_path)

    rows = json.loads(mnemic("usage", *AGENT, "--json").stdout)
    assert {row["step"] for row in rows} == STEPS
    assert any(request.get("stream") for request in model.chat_requests)
    printed: Counter[tuple[str, str]] = Counter()
    for row in rows:
        name = row["model"].removeprefix("openai:")
        printed[name, "in"] += row["input_tokens"]
        printed[name, "out"] += row["output_tokens"]
        price = PRICES[row["model"]]
        dollars = row["input_tokens"] * price["input"] + row["output_tokens"] * price["output"]
        assert row["cost"] == pytest.approx(dollars / 1e6)
    assert printed == counted
    assert sum(row["calls"] for row in rows) == len(model.chat_requests)
    assert {row["tier"] for row in rows} == {"fast", "slow", "agent"}

    table = mnemic("usage", *AGENT, "--by", "tier").stdout
    assert re.search(rf"^all .*\b{tokens_in(counted):,}\b", table, re.MULTILINE)
    assert TEA not in table


def test_a_model_without_a_price_costs_nobody_knows_what(
    mnemic: Command, online: dict[str, str], model: LoopbackModel
) -> None:
    says(model, "Hello.")
    mnemic("chat", *WHO, typed="Hello?")
    result = mnemic("usage", *AGENT)
    assert re.search(r"^all .*\?$", result.stdout.strip(), re.MULTILINE)
    assert "openai:gpt-agent" in result.stderr
    assert "no model was used" in mnemic("usage", *AGENT, "--before", "2020-01-01").stderr


@pytest.mark.parametrize(("cached", "cost"), [(0.1, 0.9 + 0.01 + 4), (None, 1.0 + 4)])
def test_cached_tokens_have_a_price_of_their_own_or_that_of_all(cached: float | None, cost: float) -> None:
    used = Usage(
        step="decide", model="m", calls=1, input_tokens=1_000_000, cached_tokens=100_000, output_tokens=1_000_000
    )
    assert cost_of(used, {"m": ModelPrice(input=1, cached=cached, output=4)}) == pytest.approx(cost)
    assert cost_of(used, {}) is None
    assert cost_of(replace(used, unreported_calls=1), {"m": ModelPrice(input=1, output=4)}) is None
