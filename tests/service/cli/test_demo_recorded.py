"""`mnemic demo` shows what a language model once answered, and nothing where that no longer fits."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mnemic.models.replay import exchange
from mnemic.service.cli.talks import Talks
from tests.service.cli.conftest import Command
from tests.support.loopback import LoopbackModel, schema_name
from tests.support.reader import dumped
from tests.support.scripted import FACTS, REFLECTIONS, fact, facts, reflections

BEES = "Ana keeps two hives of bees behind the greenhouse."
GOOD = {FACTS: facts(fact(BEES)), REFLECTIONS: reflections()}
SAID = ["I keep two hives behind the greenhouse.", "They are bees, of course.", "And they sting.", "Not often."]


@pytest.fixture
def talk(tmp_path: Path, mnemic: Command, online: dict[str, str], model: LoopbackModel) -> Path:
    """A conversation that was formed once, and the record of that."""
    rows = [
        {"session": "garden", "role": "user", "author": "ana", "content": text, "time": f"2026-03-02T09:0{minute}:00Z"}
        for minute, text in enumerate(SAID)
    ]
    file = tmp_path / "garden.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for output, good in GOOD.items():
        model.answer(output, good)
    assert mnemic("demo", tmp_path).exit_code == 0
    asked = [(request, GOOD[schema_name(request) or ""].model_dump_json()) for request in model.chat_requests]
    record = Talks(tmp_path).record
    record.parent.mkdir()
    answers = [exchange(request, "garden", {"content": answer}) for request, answer in asked]
    record.write_text(dumped(answers), encoding="utf-8")
    return file


def test_recorded_answers_replay_without_a_model_as_the_first_line_states(
    mnemic: Command, model: LoopbackModel, talk: Path
) -> None:
    asked = len(model.chat_requests)
    result = mnemic("demo", talk.parent)
    assert (result.exit_code, result.stderr) == (0, "")
    shown = " ".join(result.stdout.split())
    assert "recorded" in result.stdout.splitlines()[0].lower()
    for part in (SAID[0], BEES, "demo --live", "mnemic chat"):
        assert part in shown
    tokens = re.search(r"about ([\d,]+) tokens in", shown)  # what the recorded calls would cost
    assert tokens
    assert int(tokens[1].replace(",", "")) > 100
    assert len(model.chat_requests) == asked
    for options in (["--live"], []):  # the second one without a record
        asked, live = len(model.chat_requests), mnemic("demo", talk.parent, *options).stdout
        assert len(model.chat_requests) > asked
        assert ("recorded" in live.lower(), "demo --live" in live) == (False, False)
        Talks(talk.parent).record.unlink(missing_ok=True)


_OTHER_PROMPT = """
from mnemic.prompts import loader
source = loader._source
loader._source = lambda name: source(name).replace("A fact\\n", "A fact:\\n").replace("Categories:", "Categories::")
from mnemic.service.cli.app import main
main()
"""


def test_answers_of_another_prompt_are_replayed_with_a_note(mnemic: Command, talk: Path) -> None:
    command = [sys.executable, "-c", _OTHER_PROMPT, "demo", str(talk.parent)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "extract_facts: 1 of the answers were recorded with another prompt" in result.stderr
    assert "extract_reflections" not in result.stderr
    assert BEES in " ".join(result.stdout.split())


def test_what_was_said_otherwise_has_no_recorded_answer(mnemic: Command, talk: Path) -> None:
    talk.write_text(talk.read_text("utf-8").replace("two hives", "three hives"), encoding="utf-8")
    result = mnemic("demo", talk.parent)
    assert (result.exit_code != 0, "record anew" in " ".join(result.stderr.split())) == (True, True)
    assert "Known now" not in result.stdout


@pytest.mark.thorough
@pytest.mark.skipif(not Talks().record.exists(), reason="no record of the example conversations was made yet")
def test_the_record_of_the_package_fits_its_prompts(mnemic: Command) -> None:
    result = mnemic("demo", "--json")
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["memories"]) > 100
