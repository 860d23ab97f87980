"""Conversations that end with `/quit` or by `kill -9` are remembered, without a key and in the embedded database."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mnemic.storage.embedded.server import EmbeddedPostgres
from tests.support.clocks import advance_clock
from tests.support.commands import Terminal
from tests.support.served import new_thread, running_dev_server, turn
from tests.support.server import fast_directory

pytestmark = pytest.mark.thorough  # processes and an embedded server for each

WHO = ("--agent", "guide", "--user", "ana")
SENTENCES = ("My name is Marit.", "I live in Oslo.", "I prefer tea to coffee.")
REMEMBERED = ["Ana lives in Oslo.", "Ana prefers tea to coffee.", "Ana's name is Marit."]
PROMPT = "you> "
#: A sweep comes each minute.
MAX_SECONDS_LENGTH = 150.0


@pytest.fixture
def data() -> Iterator[Path]:
    """The data directory of an embedded server; a socket's path has at most 107 bytes."""
    directory = fast_directory() / f"mnemic-ended-{os.getpid()}"
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def env(data: Path) -> dict[str, str]:
    """A user's environment: nothing but the data directory; the rest are the defaults."""
    return {"MNEMIC_DATA_DIR": str(data), "MNEMIC_BACKGROUND": "true"}


@contextmanager
def superuser_of(data: Path) -> Iterator[psycopg.Connection]:
    """A superuser of the embedded database, whose server runs until the block ends."""
    with EmbeddedPostgres(data) as server, psycopg.connect(server.dsn(dbname="mnemic"), autocommit=True) as superuser:
        yield superuser


def listed(env: dict[str, str]) -> list[str]:
    """What `mnemic memories` shows in a process of its own."""
    command = [sys.executable, "-m", "mnemic", "memories", *WHO, "--json"]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=True)
    memories: list[dict[str, Any]] = json.loads(done.stdout)
    return sorted(memory["content"] for memory in memories)


def remembered(superuser: psycopg.Connection) -> list[str]:
    rows = superuser.execute("select content from mnemic.memories where state = 'active' and kind = 'fact'")
    return sorted(text for (text,) in rows)


def await_true(is_so: Callable[[], bool], message: str) -> None:
    deadline = time.monotonic() + MAX_SECONDS_LENGTH
    while not is_so():
        assert time.monotonic() < deadline, message
        time.sleep(0.05)


def kill_before_it_forms(env: dict[str, str], superuser: psycopg.Connection) -> None:
    """`mnemic chat` stores three sentences, and dies by `kill -9` while it forms the third one."""
    with Terminal("chat", *WHO, env=env) as chat:
        chat.until(PROMPT)
        for sentence in SENTENCES[:2]:
            chat.type(sentence)
            chat.until("+ remembered")
            chat.until(PROMPT)
        with superuser.transaction():
            superuser.execute("lock table mnemic.memories in share mode")  # nothing is stored until the block ends
            chat.type(SENTENCES[2])
            forming = "select from mnemic.leases where work = 'formation' and until > clock_timestamp()"
            await_true(lambda: superuser.execute(forming).fetchone() is not None, "the third sentence is not formed")
            chat.process.kill()
            chat.process.wait()


def test_quit_remembers_three_sentences_at_once_and_eleven_minutes_later(env: dict[str, str], data: Path) -> None:
    with Terminal("chat", *WHO, env=env) as chat:
        for sentence in SENTENCES:
            chat.until(PROMPT)
            chat.type(sentence)
        chat.until(PROMPT)
        chat.end("/quit")

    assert listed(env) == REMEMBERED
    with superuser_of(data) as superuser:
        advance_clock(superuser, 11)
    assert listed(env) == REMEMBERED


@pytest.mark.parametrize("command", [("worker",), ("chat", *WHO)], ids=["worker", "chat"])
def test_what_was_said_before_a_kill_is_formed_by_the_next_process(
    env: dict[str, str], data: Path, command: tuple[str, ...]
) -> None:
    listed(env)  # makes the database
    with superuser_of(data) as superuser:
        kill_before_it_forms(env, superuser)
        advance_clock(superuser, 11)
        assert listed(env) == [REMEMBERED[0], REMEMBERED[2]]  # control: a command does no background work
        with Terminal(*command, env=env) as following:
            await_true(lambda: remembered(superuser) == REMEMBERED, "the third sentence is not formed")
            assert listed(env) == REMEMBERED
            following.process.terminate()
            following.process.wait(60)


async def test_make_serve_remembers_words_sent_to_the_server_or_a_killed_chat(
    env: dict[str, str], data: Path, tmp_path: Path
) -> None:
    with running_dev_server(tmp_path, env) as running, superuser_of(data) as superuser:
        async with running.client() as client:
            thread, context = await new_thread(client), {"agent_id": "guide", "user_id": "bea"}
            for sentence in SENTENCES:
                await turn(client, thread, sentence, context=context)
        kill_before_it_forms(env, superuser)
        advance_clock(superuser, 11)
        both = sorted([*REMEMBERED, *(text.replace("Ana", "Bea") for text in REMEMBERED)])
        await_true(lambda: remembered(superuser) == both, f"not all is remembered: {running.log[-2000:]}")
    assert listed(env) == REMEMBERED
