"""`mnemic chat` as people use it: at a terminal, in process after process, and in a pipe."""

import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from mnemic.service.cli.app import app
from tests.support.loopback import LoopbackModel, Reply, calling
from tests.support.scripted import FACTS, fact, facts
from tests.support.server import Clone
from tests.support.supervised import DELEGATE, not_streaming, says
from tests.support.terminal import Terminal

WHO = ("--agent", "guide", "--user", "ana")
PROMPT = "you> "
TEA = "I prefer tea to coffee."

Chat = Callable[..., Terminal]


@pytest.fixture
def env(clean_db: Clone) -> dict[str, str]:
    return {"MNEMIC_DATABASE_URL": clean_db.service_dsn, "MNEMIC_EMBEDDER": "hash"}


@pytest.fixture
def chat(env: dict[str, str]) -> Chat:
    return lambda *words: Terminal("chat", *WHO, *words, env=env)


def said(terminal: Terminal, line: str) -> str:
    """What is shown between a line and the next prompt."""
    terminal.type(line)
    return terminal.until(PROMPT)


def piped(env: dict[str, str], text: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "mnemic.service.cli", "chat", *WHO, *words]
    return subprocess.run(command, input=text, capture_output=True, check=False, timeout=120, env={**os.environ, **env})


def test_what_is_told_in_one_session_is_known_in_another_process_and_session(chat: Chat) -> None:
    with chat() as first:
        begun = first.until(PROMPT)
        assert "model: offline rules; embedder: hash:384; database: " in begun
        assert "answers: offline rules" in begun
        assert re.search(r"mnemic chat --agent guide --user ana --session chat-\S+", begun)
        assert "  + remembered: Ana's name is Marit." in said(first, "My name is Marit.")
        assert "  + remembered: Ana lives in Oslo." in said(first, "I live in Oslo.")
        changed = said(first, "Actually, I moved to Bergen.")
        assert "  ↑ updated: Ana lives in Bergen." in changed
        assert "remembered" not in changed
        assert "  + remembered: Ana prefers tea to coffee." in said(first, TEA)
        first.end()

    with chat() as second:
        second.until(PROMPT)
        assert "Marit" in said(second, "What is my name?")
        home = said(second, "Where do I live?")
        assert ("Bergen" in home, "Oslo" in home) == (True, False)
        assert "tea to coffee" in said(second, "What do I prefer to drink, tea or coffee?")
        second.end()


def test_a_session_goes_on_in_a_new_process(chat: Chat, superuser: psycopg.Connection) -> None:
    for line in ("My boat is blue.", "My house is red."):
        with chat("--session", "monday") as terminal:
            assert "--session" not in terminal.until(PROMPT)
            said(terminal, line)
            terminal.end()
    rows = superuser.execute("select agent_id, user_id, thread_id from mnemic.supervisor_checkpoints").fetchall()
    assert rows == [("guide", "ana", "monday")]
    (words,) = superuser.execute(
        "select count(*) from mnemic.messages where session_id = 'monday' and role = 'user'"
    ).fetchall()
    assert words == (2,)


def kept(superuser: psycopg.Connection) -> list[str]:
    return [text for (text,) in superuser.execute("select content from mnemic.memories where state = 'active'")]


def important(superuser: psycopg.Connection) -> None:
    superuser.execute("set session_replication_role = replica")
    superuser.execute("update mnemic.memories set importance = 5")
    superuser.execute("set session_replication_role = origin")


@pytest.mark.parametrize(("answer", "stays"), [("y", False), ("YES", False), ("n", True), ("", True), ("sure", True)])
def test_what_is_important_is_forgotten_if_one_says_so(
    chat: Chat, superuser: psycopg.Connection, answer: str, stays: bool
) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        said(terminal, TEA)
        important(superuser)
        terminal.type(f"Forget that {TEA}")
        asked = terminal.until("forget it? [y/N] ")
        assert "fact, importance 5: Ana prefers tea to coffee." in asked
        assert kept(superuser) == ["Ana prefers tea to coffee."]
        shown = said(terminal, answer)
        assert ("I kept it." in shown, "  ~ forgotten: Ana prefers tea to coffee." in shown) == (stays, not stays)
        terminal.end()
    assert kept(superuser) == (["Ana prefers tea to coffee."] if stays else [])


def test_a_question_that_was_left_open_is_asked_again(chat: Chat, superuser: psycopg.Connection) -> None:
    with chat("--session", "monday") as terminal:
        terminal.until(PROMPT)
        said(terminal, TEA)
        important(superuser)
        terminal.type(f"Forget that {TEA}")
        terminal.until("forget it? [y/N] ")
        terminal.process.kill()
    with chat("--session", "monday") as again:
        assert "Ana prefers tea to coffee." in again.until("forget it? [y/N] ")
        assert "It is forgotten." in said(again, "y")
        again.end()
    assert kept(superuser) == []


def test_in_a_pipe_it_answers_and_asks_nothing(env: dict[str, str], superuser: psycopg.Connection) -> None:
    done = piped(env, f"{TEA}\n\n   \nWhat do I prefer to drink, tea or coffee?".encode())
    assert done.returncode == 0
    heard, answer = done.stdout.decode().splitlines()
    assert heard == "I see."
    assert re.fullmatch(r"\[.+\] Ana prefers tea to coffee\.", answer)
    assert PROMPT not in (done.stdout + done.stderr).decode()

    important(superuser)
    done = piped(env, f"Forget that {TEA}\n".encode())
    assert "I kept it." in done.stdout.decode()
    assert "only at a terminal" in done.stderr.decode()
    assert kept(superuser) == ["Ana prefers tea to coffee."]


def test_what_is_piped_cannot_steer_a_terminal_or_break_the_talk(
    env: dict[str, str], superuser: psycopg.Connection
) -> None:
    hostile = [
        b"\x1b]0;owned\x07I prefer \x1b[31mtea\x1b[0m to coffee.",
        b"\xff\xfe\x00 half \xed\xa0\x80 characters",
        b"I like ships. " * 7_500,  # 105 KB
        b"x" * (3 << 20),
        b"What do I prefer to drink, tea or coffee?",
    ]
    done = piped(env, b"\n".join(hostile))
    assert done.returncode == 0, done.stderr
    shown = (done.stdout + done.stderr).decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert "Traceback" not in shown
    assert "to coffee" in done.stdout.decode().splitlines()[-1]
    assert len(done.stdout) < 100_000


def test_the_end_of_input_ends_it(chat: Chat) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        terminal.end("\x04")


@pytest.fixture
def online(env: dict[str, str], model: LoopbackModel) -> dict[str, str]:
    """A real client on the scripted model."""
    return {
        **env,
        "MNEMIC_BASE_URL": model.base_url,
        "MNEMIC_AGENT_MODEL": "openai:gpt-agent",
        "MNEMIC_FAST_MODEL": "openai:gpt-fast",
        "MNEMIC_SLOW_MODEL": "openai:gpt-slow",
    }


def test_a_model_that_fails_is_told_and_the_talk_goes_on(online: dict[str, str], model: LoopbackModel) -> None:
    model.answer(FACTS, 500)
    says(model, 500, 500, 500, "Here I am.")
    with Terminal("chat", *WHO, env=online) as terminal:
        assert "answers: openai:gpt-agent" in terminal.until(PROMPT)
        assert "mnemic: openai:gpt-agent could not be used" in said(terminal, "Hello?")
        assert "Here I am." in said(terminal, TEA)
        assert "openai:gpt-fast could not be used" in terminal.until(PROMPT)  # while nobody waits for it
        terminal.end()


def test_what_was_refused_of_the_memory_is_told(online: dict[str, str], model: LoopbackModel) -> None:
    tea = fact("Ana prefers tea to coffee.")
    model.answer(FACTS, facts(tea, fact("I like tea."), nothing_else=False))
    says(model, "I see.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        said(terminal, TEA)
        told = terminal.until(PROMPT)
        assert "drafts refused: 1 (1 first_person)" in told
        assert "messages that no memory accounts for: 1" in told
        terminal.end()


def test_with_a_model_formation_goes_on_while_one_types(online: dict[str, str], model: LoopbackModel) -> None:
    formed = threading.Event()
    model.answer(FACTS, lambda _: formed.wait(30) and facts(fact("Ana prefers tea to coffee.")))
    says(model, "\x1b[31mI see.\x1b[0m", calling(("memory_query", {"query": "tea"})), "Tea.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        answered = said(terminal, TEA)
        assert "[31mI see.[0m" in answered
        assert "\x1b" not in answered
        formed.set()
        assert "+ remembered: Ana prefers tea to coffee." in terminal.until(PROMPT)
        looked_up = said(terminal, "Well?")
        assert "· memory_query" in looked_up
        assert looked_up.rstrip().endswith(f"Tea.\n{PROMPT}".rstrip())
        terminal.end()


def test_ctrl_c_stops_an_answer_and_not_the_talk(online: dict[str, str], model: LoopbackModel) -> None:
    never, asked = threading.Event(), threading.Event()

    def slow(_: Any) -> Reply:
        asked.set()
        return Reply(content="Too late.", after=never)

    says(model, slow, "Here I am.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        terminal.type("Tell me everything.")
        assert asked.wait(30)
        terminal.stop()
        shown = terminal.until(PROMPT)
        never.set()
        assert ("stopped" in shown, "Too late." in shown) == (True, False)
        assert "Here I am." in said(terminal, "Are you there?")
        terminal.stop()  # where nothing goes on it ends the talk
        assert terminal.process.wait(60) == 0
    assert DELEGATE(model.chat_requests[0])


def observed(superuser: psycopg.Connection) -> list[str]:
    return [words for (words,) in superuser.execute("select content from mnemic.messages order by place")]


def test_what_was_said_in_a_turn_that_was_stopped_is_remembered(
    online: dict[str, str], model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    never, asked = threading.Event(), threading.Event()

    def slow(_: Any) -> Reply:
        asked.set()
        return Reply(content="Too late.", after=never)

    model.answer(FACTS, facts(fact("Ana prefers tea to coffee.")))
    says(model, slow)
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        terminal.type(TEA)
        assert asked.wait(30)
        terminal.stop()
        terminal.until("stopped")
        never.set()
        terminal.end()
    assert observed(superuser) == [TEA]
    assert kept(superuser) == ["Ana prefers tea to coffee."]


def test_leaving_waits_for_what_is_being_formed(
    online: dict[str, str], model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    begun = threading.Event()

    def slow(_: Any) -> Any:
        begun.set()
        time.sleep(2)  # longer than leaving takes that does not wait
        return facts(fact("Ana prefers tea to coffee."))

    model.answer(FACTS, slow)
    says(model, "I see.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        said(terminal, TEA)
        assert begun.wait(30)
        assert "+ remembered: Ana prefers tea to coffee." in terminal.end()
    assert kept(superuser) == ["Ana prefers tea to coffee."]


def test_what_was_said_in_a_turn_that_failed_is_remembered_once(
    online: dict[str, str], model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(fact("Ana prefers tea to coffee.")))
    says(model, 400, "Here I am.")
    with Terminal("chat", *WHO, "--session", "monday", env=online) as terminal:
        terminal.until(PROMPT)
        assert "refused this request" in said(terminal, TEA)
        terminal.end()
    assert observed(superuser) == [TEA]
    with Terminal("chat", *WHO, "--session", "monday", env=online) as terminal:
        terminal.until(PROMPT)
        assert "Here I am." in said(terminal, "Hello?")
        terminal.end()
    assert superuser.execute("select role from mnemic.messages order by place").fetchall() == [
        ("user",),
        ("user",),
        ("assistant",),
    ]
    assert kept(superuser) == ["Ana prefers tea to coffee."]


def test_the_answer_of_a_model_that_does_not_stream_is_shown(
    online: dict[str, str], model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_streaming(monkeypatch)
    for name, value in online.items():
        monkeypatch.setenv(name, value)
    says(model, calling(("memory_query", {"query": "tea"}), text="I look."), "Tea.")
    done = CliRunner().invoke(app, ["chat", *WHO], input="What do I drink?", catch_exceptions=False)
    assert done.stdout.split() == ["I", "look.", "Tea."]
    assert not any(request.get("stream") for request in model.chat_requests)


def started(env: dict[str, str], stdin: Any, **given: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mnemic.service.cli", "chat", *WHO]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, stdin=stdin, text=True, env={**os.environ, **env}, **pipes, **given)


def test_a_terminal_that_was_set_not_to_block_is_waited_for(env: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(theirs, False)
    with started(env, theirs) as chat:
        assert chat.stderr
        assert "answers: offline rules" in chat.stderr.readline()
        os.write(ours, b"Hello?\n/quit\n")
        shown, told = chat.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert (chat.returncode, bool(shown), "Traceback" in told) == (0, True, False)


def test_a_terminal_that_is_gone_is_the_end_of_input(env: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    with started(env, theirs) as chat:
        assert chat.stderr
        assert "answers: offline rules" in chat.stderr.readline()
        os.close(theirs)
        os.close(ours)
        _, told = chat.communicate(timeout=60)
    assert (chat.returncode, "Traceback" in told) == (0, False)


def test_without_any_input_it_ends(env: dict[str, str]) -> None:
    with started(env, None, preexec_fn=lambda: os.close(0)) as chat:
        _, told = chat.communicate(timeout=60)
    assert (chat.returncode, "Traceback" in told) == (0, False)
