"""`mnemic worker`, `maintain`, and `jobs` with `retry` and `cancel`: what runs, waits and failed, and what is refused."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest

from mnemic.state.background import Target
from mnemic.storage.database import Database
from mnemic.storage.queue import open_queue
from tests.background.test_jobs import age
from tests.service.cli.conftest import Command, prepare
from tests.support.loopback import LoopbackModel, Reply
from tests.support.scripted import FACTS, fact, facts
from tests.support.server import Clone

WHO = ("--agent", "guide", "--user", "ana", "--session", "monday")
AGENT = ("--agent", "guide")
LINES = ("My name is Marit.", "I live in Oslo.", "I prefer tea to coffee.")


def contents(superuser: psycopg.Connection) -> list[str]:
    return [text for (text,) in superuser.execute("select content from mnemic.memories where state = 'active'")]


def talk(mnemic: Command, superuser: psycopg.Connection) -> None:
    """Three sentences, eleven minutes ago."""
    mnemic("chat", *WHO, typed="\n".join([*LINES, "/quit"]))
    age(superuser, 11)


def wake(clone: Clone, job: str, scope_key: str) -> None:
    async def act(database: Database) -> None:
        async with open_queue(database) as queue:
            await queue.wake(job, [Target("guide", scope_key)])

    prepare(clone, act)


@pytest.fixture
def unanswered(model: LoopbackModel) -> Iterator[threading.Event]:
    """Set once the model is asked; the test answers it with `model.answer`, or its end does."""
    asked, never = threading.Event(), threading.Event()

    def slow(_: object) -> Reply:
        asked.set()
        return Reply(content=facts().model_dump_json(), after=never)

    model.answer(FACTS, slow)
    yield asked
    never.set()


def test_maintain_does_what_is_due_and_ends(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, 400)
    talk_without_answer(mnemic, superuser, model)
    model.answer(FACTS, facts(fact("Ana lives in Oslo.", 2)))
    result = mnemic("maintain")
    assert (result.exit_code, contents(superuser)) == (0, ["Ana lives in Oslo."])
    assert mnemic("jobs").stderr.strip() == "no jobs"
