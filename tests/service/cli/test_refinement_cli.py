"""`mnemic refine` and `mnemic refinements`: one line of figures, who did it, and nothing of what memories say."""

import asyncio
import json
import re
import shlex
from typing import Any

import psycopg
import pytest

from tests.service.cli.conftest import Command
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import BOTH, DONE, KEY, keep_in, merge, protect, script
from tests.support.rollbacks import ANA, everything
from tests.support.server import Clone
from tests.support.stored_refinements import begun
from tests.support.worlds import expire_leases

PERSON = ("--agent", "harbor", "--user", "ana")
BLIND = ("--agent", "harbor")
REFINE = ("refine", KEY, *BLIND)
TEXTS = ("Ana always wants short answers.", "Ana wants answers in English.", "Ana  wants answers in English.")


@pytest.fixture
def stored(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stores core memories of Ana's; no model is configured."""
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)

    def store(*texts: str, key: str = KEY) -> None:
        async def keep() -> None:
            async with clean_db.database() as db:
                await keep_in(db, *texts, who=ANA, key=key)

        asyncio.run(keep())

    return store


@pytest.fixture
def three(stored: Any) -> None:
    """Three of them, of which two are the same but for white space."""
    stored(*TEXTS)


@pytest.fixture
def scripted(three: None, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch) -> LoopbackModel:
    """An agent that merges what is left of them and protects that."""
    monkeypatch.setenv("MNEMIC_BASE_URL", model.base_url)
    monkeypatch.setenv("MNEMIC_API_KEY", "test")
    script(model, merge(1, 2, into=BOTH), protect(3), DONE)
    return model


def listed(mnemic: Command, *words: Any) -> Any:
    return json.loads(mnemic("refinements", *words, "--json").stdout)


def test_it_is_one_line_of_figures_that_is_listed_and_says_how_it_is_undone(
    mnemic: Command, scripted: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mnemic("refinements", *BLIND).stderr == "no refinements\n"
    result = mnemic(*REFINE, "--force", "--actor", "keeper")

    assert (result.exit_code, result.stdout.count("\n"), "offline" in result.stderr) == (0, 1, False)
    for figures in ("3 → 1 memories", "24 → 11 tokens", "target 5,000", "1 protected", "ended: completed"):
        assert figures in result.stdout
    monkeypatch.setenv("COLUMNS", "80")
    for who in (PERSON, BLIND):
        (row,) = listed(mnemic, *who, "--limit", 1)
        assert (row["ended"], row["is_held"], row["tokens_after"], row["actor"]) == ("completed", False, 11, "keeper")
        shown = mnemic("refinements", *who).stdout
        for figure in (KEY, "3 → 1 ", "24 → 11 ", "target 5,000", "merged 2", "completed", "keeper"):
            assert figure in shown
        assert any(row["id"] in line for line in shown.splitlines())  # whole, to be copied
        assert not any(word in str(row) + shown + result.output for word in ("English", "short", "put together"))
    assert mnemic("refinements", *BLIND, "--user", "bo").stderr == "no refinements\n"
    assert BOTH in mnemic("memories", *PERSON).stdout  # the control
    command = shlex.split(result.stderr.rpartition("to undo it: ")[2])
    assert mnemic(*command[1:], "--yes").exit_code == 0
    living = superuser.execute("select content from mnemic.memories where state = 'active' order by 1").fetchall()
    assert [content for (content,) in living] == sorted(TEXTS)


@pytest.mark.thorough
def test_a_history_names_what_was_merged_and_what_it_was_merged_into(mnemic: Command, scripted: LoopbackModel) -> None:
    mnemic(*REFINE, "--force")
    memories = json.loads(mnemic("memories", *PERSON, "--all", "--json").stdout)
    whole = next(item["id"] for item in memories if item["content"] == BOTH)
    (added, *_) = json.loads(mnemic("history", whole, *PERSON, "--json").stdout)
    assert len(added["merged_from"]) == 2
    for part in added["merged_from"]:
        assert part in mnemic("history", whole, *PERSON).stdout
        assert whole in mnemic("history", part, *PERSON).stdout


def test_where_nothing_changed_it_says_so_and_there_is_nothing_to_undo(mnemic: Command, stored: Any) -> None:
    stored(TEXTS[0])
    result = mnemic(*REFINE, "--force")
    assert (result.exit_code, "undo" in result.stderr, "MNEMIC_AGENT_MODEL" in result.stderr) == (0, False, True)
    assert result.stdout.startswith("nothing changed: 8 tokens in 1 memories")
    (row,) = listed(mnemic, *PERSON)
    assert (row["ended"], row["journal_id"]) == ("completed", None)
    for who in (PERSON, BLIND):
        undone = mnemic("undo", "--refinement", row["id"], *who, "--yes")
        assert (undone.exit_code, undone.stdout) == (2, "")


def test_a_dry_run_tells_what_there_is_and_writes_nothing(
    mnemic: Command, three: None, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(superuser)
    for words in ((), ("--dry-run",)):  # within the budget
        result = mnemic(*REFINE, *words)
        assert (result.exit_code, result.stderr) == (0, "")
        assert re.match("not due: 24 tokens in 3 memories.*--force", result.stdout)
    assert mnemic("refine", *BLIND, "--force").stdout == "not due: 0 tokens in 0 memories\n"
    for size in ("BUDGET", "TARGET"):
        monkeypatch.setenv(f"MNEMIC_REFINEMENT_{size}_TOKENS", "10")
    planned = mnemic(*REFINE, "--dry-run").stdout
    for figures in ("due: 24 tokens in 3 memories", "protected 0", "exact duplicates 1", "target 10 tokens"):
        assert figures in planned
    assert json.loads(mnemic(*REFINE, "--dry-run", "--json").stdout)["outcome"] == "planned"
    assert everything(superuser) == before
    # what a recall recommends is this command
    recommended = mnemic("recall", *PERSON).stderr.rpartition("to compress it: ")[2]
    assert mnemic(*shlex.split(recommended)[1:]).stdout.startswith("3 → ")


def test_one_that_runs_keeps_others_out_and_one_broken_off_is_resumed_or_closed(
    clean_db: Clone, mnemic: Command, three: None, superuser: psycopg.Connection
) -> None:
    async def begin() -> None:
        async with clean_db.database() as db:
            await begun(db, ANA, seconds=600)

    asyncio.run(begin())
    refused = mnemic(*REFINE)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert re.search(r"running for \d+ seconds", refused.stderr)
    assert "running\n" in mnemic("refinements", *BLIND).stdout.replace(" ", "")
    expire_leases(superuser)
    assert "broken off" in mnemic("refinements", *PERSON).stdout
    assert "broken off" in mnemic(*REFINE, "--dry-run").stdout
    superuser.execute("update mnemic.refinements set started_at = now() - interval '2 hours'")
    result = mnemic(*REFINE, "--force")
    assert (result.exit_code, "resumed, ended: time" in result.stdout) == (1, True)
    assert "the same command again" in result.stderr
    assert mnemic(*REFINE, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("refine", "nonsense", *BLIND), "scope key"),
        (("refine", "user: ana", *BLIND), "SCOPE_KEY"),
        (("refine", "--agent", ""), "--agent"),
        ((*REFINE, "--actor", ""), "--actor"),
        (("refinements", *BLIND, "--session", "s1"), "--session goes with --user"),
        (("refinements", *BLIND, "--group", "crew"), "--group goes with --user"),
    ],
)
def test_what_cannot_be_meant_is_one_line_that_names_it(mnemic: Command, words: tuple[str, ...], named: str) -> None:
    result = mnemic(*words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert named in result.stderr
