"""`mnemic worker`, `maintain`, and `jobs` with `retry` and `cancel`: what runs, waits and failed."""

import json
import re
import shlex
import signal
import threading

import psycopg
import pytest

from mnemic.state.background import Target
from mnemic.storage.database import Database
from mnemic.storage.queue import open_queue
from tests.background.test_jobs import age
from tests.service.cli.conftest import Command, prepare
from tests.support.agents import says
from tests.support.commands import Terminal
from tests.support.loopback import LoopbackModel, Reply
from tests.support.scripted import FACTS, fact, facts
from tests.support.server import Clone

WHO = ("--agent", "guide", "--user", "ana", "--session", "monday")
SENTENCES = ("My name is Marit.", "I live in Oslo.", "I prefer tea to coffee.")
OSLO = "Ana is called Marit and lives in Oslo."


def contents(superuser: psycopg.Connection) -> list[str]:
    return [text for (text,) in superuser.execute("select content from mnemic.memories where state = 'active'")]


@pytest.fixture
def talked(
    mnemic: Command, online: dict[str, str], model: LoopbackModel, superuser: psycopg.Connection
) -> LoopbackModel:
    """Three sentences of eleven minutes ago, of which nothing could be formed; the model answers now."""
    model.answer(FACTS, 400)
    says(model, "I see.")
    mnemic("chat", *WHO, typed="\n".join([*SENTENCES, "/quit"]))
    age(superuser, 11)
    superuser.execute("update mnemic.leases set until = now()")
    model.answer(FACTS, facts(fact(OSLO)))
    return model


def wake(clone: Clone) -> None:
    async def act(database: Database) -> None:
        async with open_queue(database) as queue:
            await queue.wake("form", [Target("guide", "session:monday")])

    prepare(clone, act)


def test_maintain_does_what_is_due_and_ends(
    mnemic: Command, talked: LoopbackModel, superuser: psycopg.Connection
) -> None:
    assert contents(superuser) == []
    assert mnemic("maintain").exit_code == 0
    assert contents(superuser) == [OSLO]
    assert json.loads(mnemic("jobs", "--json").stdout)["queued"] == []


@pytest.mark.thorough
def test_a_worker_that_is_terminated_finishes_the_job_that_runs(
    talked: LoopbackModel, online: dict[str, str], clean_db: Clone, superuser: psycopg.Connection
) -> None:
    asked, released = threading.Event(), threading.Event()

    def slow(_: object) -> Reply:
        asked.set()
        return Reply(content=facts(fact(OSLO)).model_dump_json(), after=released)

    talked.answer(FACTS, slow)
    wake(clean_db)
    with Terminal("worker", env=online) as terminal:
        terminal.until("Ctrl-C")
        assert asked.wait(60)
        terminal.process.send_signal(signal.SIGTERM)
        terminal.until("finishing the running jobs")
        released.set()
        assert terminal.process.wait(60) == 0
    assert contents(superuser) == [OSLO]


def test_set_aside_messages_are_listed_with_the_command_that_forms_them(
    mnemic: Command, talked: LoopbackModel, superuser: psycopg.Connection
) -> None:
    superuser.execute("update mnemic.messages set quarantined = true")
    (failed,) = json.loads(mnemic("jobs", "--json").stdout)["failed"]
    assert (failed["job"], failed["scope_key"], failed["retry_at"]) == ("retry", "session:monday", None)
    assert "Oslo" not in failed["reason"]

    listed = mnemic("jobs")
    (again,) = re.findall(r"mnemic (jobs retry .*)", " ".join(listed.stderr.split()))
    assert mnemic(*shlex.split(again)).exit_code == 0
    assert [job["job"] for job in json.loads(mnemic("jobs", "--json").stdout)["queued"]] == ["retry"]
    assert mnemic("maintain").exit_code == 0
    assert contents(superuser) == [OSLO]
    assert json.loads(mnemic("jobs", "--json").stdout)["failed"] == []


def test_a_cancelled_job_is_gone_and_its_work_stays_due(
    mnemic: Command, talked: LoopbackModel, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    wake(clean_db)
    (job,) = json.loads(mnemic("jobs", "--json").stdout)["queued"]
    assert mnemic("jobs", "cancel", job["id"]).exit_code == 0
    assert json.loads(mnemic("jobs", "--json").stdout)["queued"] == []
    assert mnemic("maintain").exit_code == 0
    assert contents(superuser) == [OSLO]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("cancel", "7"), "job 7"),
        (("retry", "tidy", "session:monday", "--agent", "guide"), "tidy"),
        (("retry", "form", "monday", "--agent", "guide"), "scope_key"),
        (("retry", "form", "session:monday", "--agent", "guide"), "monday"),
    ],
    ids=["no such id", "no such job", "no scope key", "no such session"],
)
def test_what_is_not_there_is_named_and_nothing_is_queued(mnemic: Command, words: tuple[str, ...], named: str) -> None:
    result = mnemic("jobs", *words)
    assert result.exit_code == 2
    assert named in result.stderr
    assert json.loads(mnemic("jobs", "--json").stdout)["queued"] == []
