"""`mnemic chat` at a terminal, where it asks, is interrupted, and shows what is formed while somebody types."""

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.service.cli.test_chat import PREFERS_TEA, TEA, WHO, living, make_important, observed
from tests.support.loopback import LoopbackModel, Reply, calling
from tests.support.scripted import FACTS, fact, facts
from tests.support.supervised import says
from tests.support.terminal import Terminal

pytestmark = pytest.mark.thorough

PROMPT = "you> "
FORGET = "forget it? [y/N] "


def answer(terminal: Terminal, line: str) -> str:
    """What is shown between a line and the next prompt."""
    terminal.type(line)
    return terminal.until(PROMPT)


def ask_to_forget(terminal: Terminal, superuser: psycopg.Connection) -> str:
    """What is shown before the question whether to forget something important."""
    terminal.until(PROMPT)
    assert f"  + remembered: {PREFERS_TEA}" in answer(terminal, TEA)
    make_important(superuser)
    terminal.type(f"Forget that {TEA}")
    return terminal.until(FORGET)


THOROUGH = [pytest.param(line, stays, marks=pytest.mark.thorough) for line, stays in (("YES", False), ("", True))]


@pytest.mark.parametrize(("line", "stays"), [("y", False), *THOROUGH])
def test_what_is_important_is_forgotten_if_one_says_so(
    env: dict[str, str], superuser: psycopg.Connection, line: str, stays: bool
) -> None:
    with Terminal("chat", *WHO, env=env) as terminal:
        assert f"fact, importance 5: {PREFERS_TEA}" in ask_to_forget(terminal, superuser)
        assert living(superuser) == [PREFERS_TEA]
        shown = answer(terminal, line)
        assert ("I kept it." in shown, f"  ~ forgotten: {PREFERS_TEA}" in shown) == (stays, not stays)
        terminal.end("\x04")  # the end of input
    assert living(superuser) == ([PREFERS_TEA] if stays else [])


@pytest.mark.thorough
def test_a_question_that_was_left_open_is_asked_again(env: dict[str, str], superuser: psycopg.Connection) -> None:
    with Terminal("chat", *WHO, "--session", "monday", env=env) as terminal:
        ask_to_forget(terminal, superuser)
        terminal.process.kill()
    with Terminal("chat", *WHO, "--session", "monday", env=env) as again:
        assert PREFERS_TEA in again.until(FORGET)
        assert "It is forgotten." in answer(again, "y")
        again.end()
    assert living(superuser) == []


@pytest.mark.thorough
def test_with_a_model_formation_goes_on_while_one_types(online: dict[str, str], model: LoopbackModel) -> None:
    formed = threading.Event()
    model.answer(FACTS, lambda _: formed.wait(30) and facts(fact(PREFERS_TEA)))
    says(model, "I see.", calling(("memory_query", {"query": "tea"})), "Tea.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        assert "I see." in answer(terminal, TEA)
        formed.set()
        assert f"+ remembered: {PREFERS_TEA}" in terminal.until(PROMPT)
        looked_up = answer(terminal, "Well?")
        assert "· memory_query" in looked_up
        assert looked_up.rstrip().endswith(f"Tea.\n{PROMPT}".rstrip())
        terminal.end()


@pytest.mark.thorough
def test_ctrl_c_stops_an_answer_and_not_the_talk_and_what_was_said_is_remembered(
    online: dict[str, str], model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    never, begun = threading.Event(), threading.Event()

    def slow(_: Any) -> Reply:
        begun.set()
        return Reply(content="Too late.", after=never)

    model.answer(FACTS, facts(fact(PREFERS_TEA)))
    says(model, slow, "Here I am.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        terminal.type(TEA)
        assert begun.wait(30)
        terminal.stop()
        shown = terminal.until(PROMPT)
        never.set()
        assert ("stopped" in shown, "Too late." in shown) == (True, False)
        assert "Here I am." in answer(terminal, "Are you there?")
        terminal.stop()  # where nothing goes on it ends the talk
        assert terminal.process.wait(60) == 0
    assert observed(superuser)[0] == ("user", TEA)
    assert PREFERS_TEA in living(superuser)


@pytest.mark.thorough
def test_leaving_waits_for_what_is_being_formed(online: dict[str, str], model: LoopbackModel) -> None:
    begun, left = threading.Event(), threading.Event()

    def slow(_: Any) -> Any:
        begun.set()
        left.wait(30)
        return facts(fact(PREFERS_TEA))

    model.answer(FACTS, slow)
    says(model, "I see.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        answer(terminal, TEA)
        assert begun.wait(30)
        terminal.type("/quit")
        with pytest.raises(subprocess.TimeoutExpired):  # longer than leaving takes that does not wait
            terminal.process.wait(2)
        left.set()
        terminal.until(f"+ remembered: {PREFERS_TEA}")
        assert terminal.process.wait(60) == 0


def started(env: dict[str, str], stdin: Any, **given: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "mnemic", "chat", *WHO]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, stdin=stdin, text=True, env={**os.environ, **env}, **pipes, **given)


def closed(ours: int, theirs: int) -> None:
    os.close(theirs)
    os.close(ours)


def not_blocking(ours: int, theirs: int) -> None:
    os.set_blocking(theirs, False)
    os.write(ours, b"Hello?\n/quit\n")


@pytest.mark.thorough
@pytest.mark.parametrize("change", [not_blocking, closed])
def test_odd_terminals_are_waited_for_or_are_the_end_of_input(
    env: dict[str, str], change: Callable[[int, int], None]
) -> None:
    ours, theirs = pty.openpty()
    with started(env, theirs) as chat:
        assert chat.stderr
        assert "answers: offline rules" in chat.stderr.readline()
        change(ours, theirs)
        shown, told = chat.communicate(timeout=60)
    assert (chat.returncode, bool(shown), "Traceback" in told) == (0, change is not_blocking, False)
    if change is not_blocking:
        closed(ours, theirs)


@pytest.mark.thorough
def test_without_any_input_it_ends(env: dict[str, str]) -> None:
    with started(env, None, preexec_fn=lambda: os.close(0)) as chat:
        _, told = chat.communicate(timeout=60)
    assert (chat.returncode, "Traceback" in told) == (0, False)
