"""`mnemic chat` in a pipe and at a terminal; and `mnemic threads`, which finds conversations again."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from mnemic.service.cli import waiting
from tests.service.cli.conftest import Command
from tests.support.agents import not_streaming, says
from tests.support.commands import Terminal
from tests.support.loopback import LoopbackModel, Reply, calling
from tests.support.scripted import DECISIONS, FACTS, decision, decisions, fact, facts

WHO = ("--agent", "guide", "--user", "ana")
TEA = "I prefer tea to coffee."
PREFERS_TEA = "Ana prefers tea to coffee."
WHICH = "What do I prefer to drink, tea or coffee?"


def living(superuser: psycopg.Connection) -> list[str]:
    return [text for (text,) in superuser.execute("select content from mnemic.memories where state = 'active'")]


def observed(superuser: psycopg.Connection) -> list[tuple[str, str]]:
    return [
        (role, text) for role, text in superuser.execute("select role, content from mnemic.messages order by place")
    ]


def make_important(superuser: psycopg.Connection) -> None:
    superuser.execute("set session_replication_role = replica")
    superuser.execute("update mnemic.memories set importance = 5")
    superuser.execute("set session_replication_role = origin")


@pytest.mark.thorough
def test_what_is_told_in_one_conversation_is_known_in_another(mnemic: Command) -> None:
    lines = ["My name is Marit.", "I live in Oslo.", "Actually, I moved to Bergen.", TEA]
    first = mnemic("chat", *WHO, typed="\n".join([*lines, "/quit", "My name is Eve."]))
    assert first.exit_code == 0
    assert "model: offline rules; embedder: hash:384; database: " in first.stderr
    assert "answers: offline rules" in first.stderr
    assert re.search(r"mnemic chat --agent guide --user ana --session chat-\S+", first.stderr)
    updates = [line.strip() for line in first.stderr.splitlines() if line.startswith("  ")]
    assert [line.partition(":")[0] for line in updates] == ["+ remembered", "+ remembered", "↑ updated", "+ remembered"]
    assert updates[0] == "+ remembered: Ana's name is Marit."
    assert "Bergen" in updates[2]

    second = mnemic("chat", *WHO, typed=f"What is my name?\nWhere do I live?\n\n   \n{WHICH}")
    name, home, drink = second.stdout.splitlines()
    assert "Marit" in name
    assert ("Bergen" in home, "Oslo" in home) == (True, False)
    assert re.fullmatch(rf"{re.escape(PREFERS_TEA)} \(.+\)", drink)
    assert "you> " not in second.output


def test_a_conversation_goes_on_and_is_found_again(mnemic: Command, superuser: psycopg.Connection) -> None:
    for session, line in (("old one", "My boat is blue."), ("new", "My cat is grey."), ("old one", "My house is red.")):
        result = mnemic("chat", *WHO, "--session", session, typed=line)
        assert (result.exit_code, "--session" in result.stderr) == (0, False)
    mnemic("chat", "--agent", "guide", "--user", "bo", "--session", "his", typed="Hello.")
    listed = mnemic("threads", *WHO)
    first, second = listed.stdout.splitlines()[1:]
    assert ("old one" in first, "new" in second) == (True, True)
    again = shlex.split(listed.stderr.rpartition("to continue the latest conversation: ")[2])
    assert again == ["mnemic", "chat", *WHO, "--session", "old one"]
    threads = json.loads(mnemic("threads", *WHO, "--json").stdout)
    assert [thread["id"] for thread in threads] == ["old one", "new"]
    assert threads[0]["updated_at"] > threads[1]["updated_at"]
    assert "boat" not in listed.output + json.dumps(threads)
    for stranger in (("--agent", "museum", "--user", "ana"), ("--agent", "guide", "--user", "cy")):
        nothing = mnemic("threads", *stranger)
        assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "no conversations\n")
        assert json.loads(mnemic("threads", *stranger, "--json").stdout) == []


def test_in_a_pipe_nobody_is_asked_and_what_is_important_is_kept(
    mnemic: Command, superuser: psycopg.Connection
) -> None:
    mnemic("chat", *WHO, typed=TEA)
    make_important(superuser)
    result = mnemic("chat", *WHO, typed=f"Forget that {TEA}")
    assert "I kept it." in result.stdout
    assert "needs a terminal" in result.stderr
    assert living(superuser) == [PREFERS_TEA]


@pytest.mark.thorough
def test_what_is_piped_cannot_steer_a_terminal_or_break_the_talk(mnemic: Command) -> None:
    hostile = [
        b"\x1b]0;owned\x07I prefer \x1b[31mtea\x1b[0m to coffee.",
        b"\xff\xfe\x00 half \xed\xa0\x80 characters",
        b"I like ships. " * 7_500,  # 105 KB
        b"x" * (3 << 20),
        WHICH.encode(),
    ]
    result = mnemic("chat", *WHO, typed=b"\n".join(hostile))
    assert result.exit_code == 0
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.output)
    assert "to coffee" in result.stdout.splitlines()[-1]
    assert len(result.stdout) < 100_000


@pytest.mark.parametrize("end", ["/quit", "/exit", "exit", "Quit"])
def test_commands_are_no_messages(mnemic: Command, superuser: psycopg.Connection, end: str) -> None:
    lines = ["/help", "/clear", "/etc/hosts is a file.", end, "My name is Eve."]
    told = mnemic("chat", *WHO, typed="\n".join(lines))
    assert [part for part in ("/quit", "Ctrl-C", "there is no /clear") if part not in told.stderr] == []
    assert [text for role, text in observed(superuser) if role == "user"] == ["/etc/hosts is a file."]


@pytest.mark.thorough
def test_failing_model_is_reported_and_the_conversation_is_remembered_once(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, 400, facts(fact(PREFERS_TEA)))
    says(model, 400, "Here I am.")
    first = mnemic("chat", *WHO, "--session", "monday", typed=TEA)
    assert (first.exit_code, "no message got an answer" in first.stderr) == (1, True)
    assert "answers: openai:gpt-agent" in first.stderr
    assert "openai:gpt-agent refused this request" in " ".join(first.stderr.split())
    assert "openai:gpt-fast refused this request" in " ".join(first.stderr.split())
    second = mnemic("chat", *WHO, "--session", "monday", typed="Hello?")
    assert second.exit_code == 0
    assert second.stdout == "Here I am.\n"
    assert observed(superuser) == [("user", TEA), ("user", "Hello?"), ("assistant", "Here I am.")]
    assert living(superuser) == [PREFERS_TEA]


@pytest.mark.thorough
def test_a_failure_of_formation_is_told_once_and_again_where_it_is_another(
    mnemic: Command, online: dict[str, str], model: LoopbackModel
) -> None:
    model.answer(FACTS, 401, 401, 403)
    says(model, "I see.")
    told = mnemic("chat", *WHO, typed="My boat is blue.\nMy cat is grey.\nMy house is red.").stderr
    assert [told.count(problem) for problem in ("key refused", "permission denied")] == [1, 1]


@pytest.mark.thorough
def test_a_slow_model_is_named_with_what_it_is_asked_for(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "FIRST", 0.2)
    released = threading.Event()
    model.answer(FACTS, Reply(content=facts().model_dump_json(), after=released))
    says(model, "I see.")
    threading.Timer(2, released.set).start()
    told = mnemic("chat", *WHO, typed=TEA).stderr
    assert re.search(r"openai:gpt-fast has not answered extract_facts for \d+ s", " ".join(told.split()))


def test_the_answer_of_a_model_that_does_not_stream_is_shown(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_streaming(monkeypatch)
    says(model, calling(("memory_query", {"query": "tea"}), text="I look."), "Tea.")
    result = mnemic("chat", *WHO, typed="What do I drink?")
    assert result.stdout.split() == ["I", "look.", "Tea."]
    assert "· memory_query" in result.stderr
    assert not any(request.get("stream") for request in model.chat_requests)


# -- at a terminal, where it asks, is interrupted, and shows what is formed while somebody types

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


@pytest.mark.thorough
@pytest.mark.parametrize(("line", "stays"), [("y", False), ("YES", False), ("", True)])
def test_what_is_important_is_forgotten_if_one_says_so(
    env: dict[str, str], superuser: psycopg.Connection, line: str, stays: bool
) -> None:
    with Terminal("chat", *WHO, env=env) as terminal:
        assert f"fact, importance 5: {PREFERS_TEA}" in ask_to_forget(terminal, superuser)
        assert living(superuser) == [PREFERS_TEA]
        shown = answer(terminal, line)
        assert ("I kept it." in shown, "  ~ forgotten: " in shown and PREFERS_TEA not in shown) == (stays, not stays)
        terminal.end("\x04")  # the end of input
    assert living(superuser) == ([PREFERS_TEA] if stays else [])


@pytest.mark.thorough
def test_quit_at_a_question_keeps_the_memory_and_ends(env: dict[str, str], superuser: psycopg.Connection) -> None:
    with Terminal("chat", *WHO, env=env) as terminal:
        ask_to_forget(terminal, superuser)
        terminal.type("/quit")
        terminal.until("I kept it.")
        assert terminal.process.wait(60) == 0
    assert living(superuser) == [PREFERS_TEA]


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
def test_formation_runs_while_the_user_types_and_leaving_waits_for_it(
    online: dict[str, str], model: LoopbackModel
) -> None:
    begun, released, texts = threading.Event(), threading.Event(), iter([PREFERS_TEA, "Ana keeps bees."])

    def slow(_: Any) -> Any:
        begun.set()
        released.wait(30)
        return facts(fact(next(texts)))

    model.answer(FACTS, slow)
    model.answer(DECISIONS, decisions(decision(1, "ADD")))
    says(model, "I see.", calling(("memory_query", {"query": "tea"})), "Tea.")
    with Terminal("chat", *WHO, env=online) as terminal:
        terminal.until(PROMPT)
        assert "I see." in answer(terminal, TEA)
        released.set()
        assert f"+ remembered: {PREFERS_TEA}" in terminal.until(PROMPT)
        begun.clear()
        released.clear()
        looked_up = answer(terminal, "Well?")
        assert "· memory_query" in looked_up
        assert looked_up.rstrip().endswith(f"Tea.\n{PROMPT}".rstrip())
        assert begun.wait(30)
        terminal.type("/quit")
        with pytest.raises(subprocess.TimeoutExpired):  # longer than leaving takes that does not wait
            terminal.process.wait(2)
        released.set()
        terminal.until("+ remembered: Ana keeps bees.")
        assert terminal.process.wait(60) == 0


@pytest.mark.thorough
def test_ctrl_c_stops_the_answer_alone_and_the_conversation_is_remembered(
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


def closed(ours: int, theirs: int) -> None:
    os.close(theirs)
    os.close(ours)


def not_blocking(ours: int, theirs: int) -> None:
    os.set_blocking(theirs, False)
    os.write(ours, b"Hello?\n/quit\n")


@pytest.mark.thorough
@pytest.mark.parametrize("change", [not_blocking, closed, None])
def test_odd_terminals_are_waited_for_or_are_the_end_of_input(
    env: dict[str, str], change: Callable[[int, int], None] | None
) -> None:
    ours, theirs = pty.openpty()
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    pipes |= {"stdin": theirs} if change else {"preexec_fn": lambda: os.close(0)}  # which is no terminal at all
    with subprocess.Popen([sys.executable, "-m", "mnemic", "chat", *WHO], env={**os.environ, **env}, **pipes) as chat:
        assert chat.stderr
        assert "answers: offline rules" in chat.stderr.readline()
        if change:
            change(ours, theirs)
        answers, errors = chat.communicate(timeout=60)
    assert (chat.returncode, bool(answers), "Traceback" in errors) == (0, change is not_blocking, False)
    if change is not closed:
        closed(ours, theirs)
