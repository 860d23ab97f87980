"""`mnemic init` writes a file that works; `mnemic doctor --models` says of each model what works and what to set."""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from dotenv import dotenv_values

from tests.service.cli.conftest import Command
from tests.support.commands import Terminal
from tests.support.loopback import Answer, LoopbackModel, calling, offering

BOATS = json.dumps({"owner": "Ana", "boats": 3})


def healthy(model: LoopbackModel, structured: Answer = BOATS) -> None:
    model.answer("Boats", structured)
    model.answer(offering("look_up"), calling(("look_up", {"subject": "boats"})))
    model.answer("Count from one to twenty", "one two three")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A directory without settings of models; what a command reads out of its file is taken back."""
    monkeypatch.chdir(tmp_path)
    with pytest.MonkeyPatch.context() as inner:
        inner.delenv("MNEMIC_EMBEDDER", raising=False)
        yield tmp_path


def test_init_writes_a_file_that_works_and_tries_it(mnemic: Command, model: LoopbackModel, bare: Path) -> None:
    healthy(model)
    result = mnemic("init", "--model", "openai:m", "--base-url", model.base_url, "--api-key", "quay-key")
    assert result.exit_code == 0, result.output
    assert re.findall(r"^(ok|BROKEN) .*?(structured|tools|stream|minilm)", result.stdout, re.MULTILINE) == [
        ("ok", "structured"),
        ("ok", "tools"),
        ("ok", "stream"),
        ("ok", "minilm"),
    ]
    file = bare / ".env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert dotenv_values(file) == {
        "MNEMIC_FAST_MODEL": "openai:m",
        "MNEMIC_SLOW_MODEL": "openai:m",
        "MNEMIC_AGENT_MODEL": "openai:m",
        "MNEMIC_BASE_URL": model.base_url,
        "MNEMIC_API_KEY": "quay-key",
        "MNEMIC_EMBEDDER": "minilm",
    }
    assert "quay-key" not in result.output
    assert mnemic("init", "--model", "offline").exit_code == 2  # it is there


def test_an_existing_file_is_narrowed_to_its_owner(mnemic: Command, model: LoopbackModel, bare: Path) -> None:
    healthy(model)
    file = bare / ".env"
    file.write_text("OTHER=1\n")
    file.chmod(0o644)
    written = mnemic("init", "--model", "openai:m", "--base-url", model.base_url, "--api-key", "quay-key", "--force")
    assert written.exit_code == 0, written.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert dotenv_values(file)["OTHER"] == "1"


def test_a_way_of_structured_output_that_works_is_found_and_written(
    mnemic: Command, model: LoopbackModel, bare: Path
) -> None:
    healthy(model)
    model.answer(lambda request: "response_format" in request, 400)
    result = mnemic("init", "--model", "openai:m", "--base-url", model.base_url)
    assert result.exit_code == 0, result.output
    assert dotenv_values(bare / ".env")["MNEMIC_STRUCTURED_OUTPUT"] == "function_calling"


def test_what_cannot_be_is_refused_before_anything_is_written(mnemic: Command, bare: Path) -> None:
    for words, part in (
        (("--model", "gpt"), "provider:model"),
        (("--model", "opnai:m"), "the nearest is openai"),
        (("--model", "mistralai:m"), "pip install langchain-mistralai"),
        (("--model", "openai:m", "--base-url", "localhost:1"), "http://"),
        ((), "--model"),
    ):
        result = mnemic("init", *words)
        assert (result.exit_code, result.stdout, part in result.stderr) == (2, "", True), words
    assert list(bare.iterdir()) == []


def test_nothing_is_written_if_no_request_succeeds(mnemic: Command, model: LoopbackModel, bare: Path) -> None:
    model.answer(lambda _: True, 401)
    result = mnemic("init", "--model", "openai:m", "--base-url", model.base_url)
    assert (result.exit_code, "is not written" in result.stderr, "MNEMIC_API_KEY" in result.stdout) == (1, True, True)
    assert list(bare.iterdir()) == []


def test_the_doctor_tells_what_is_broken_and_what_to_set(
    mnemic: Command, online: dict[str, str], model: LoopbackModel
) -> None:
    healthy(model)
    assert mnemic("doctor", "--models").exit_code == 0
    model.answer(offering("look_up"), "I know nothing of boats.")
    model.answer(lambda request: "response_format" in request or request["model"] == "gpt-slow", 401)
    result = mnemic("doctor", "--models", "--json")
    assert result.exit_code == 1
    notes = {one["name"]: one["note"] for one in json.loads(result.stdout) if "seconds" in one and not one["ok"]}
    assert notes["openai:gpt-fast, structured output"] == "set MNEMIC_STRUCTURED_OUTPUT=function_calling"
    assert "MNEMIC_API_KEY" in notes["openai:gpt-slow, structured output"]
    assert "MNEMIC_AGENT_MODEL" in notes["openai:gpt-agent, tools"]


@pytest.mark.thorough
def test_at_a_terminal_it_asks_and_the_next_command_reads_the_file(
    env: dict[str, str], model: LoopbackModel, bare: Path
) -> None:
    healthy(model)
    with Terminal("init", env=env) as terminal:
        terminal.until("model")
        terminal.until(": ")
        terminal.type("gpt-5")  # it is prompted for again
        terminal.until("provider:model")
        for question, answer in (
            ("model", "openai:m"),
            ("base URL", model.base_url),
            ("API key", ""),
            ("embedder", ""),
        ):
            terminal.until(f"{question}")
            terminal.until(": ")
            terminal.type(answer)
        assert "is written" in terminal.until("mnemic chat")
    with Terminal("doctor", "--models", env=env) as terminal:
        assert "openai:m, tools" in terminal.until("dimensions")
