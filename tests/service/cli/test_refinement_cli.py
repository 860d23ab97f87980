"""`mnemic refine` and `mnemic refinements`: one line of figures, who did it, and nothing of what memories say."""

import asyncio
import json
import re
import shlex

import psycopg
import pytest

from tests.service.cli.conftest import Command
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import DONE, keep_in, merge, protect, script
from tests.support.rollbacks import ANA, everything
from tests.support.server import Clone
from tests.support.stored_refinements import begun

PERSON = ("--agent", "harbor", "--user", "ana")
BLIND = ("--agent", "harbor")
REFINE = ("refine", "user:ana", *BLIND)
TEXTS = ("Ana always wants short answers.", "Ana wants answers in English.", "Ana  wants answers in English.")
BOTH = "Ana always wants short answers in English."


@pytest.fixture
def three(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three core memories of Ana's, of which two are the same but for white space; no model is configured."""
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)

    async def store() -> None:
        async with clean_db.database() as db:
            await keep_in(db, *TEXTS)

    asyncio.run(store())


@pytest.fixture
def scripted(three: None, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch) -> LoopbackModel:
    """An agent that merges what is left of them and protects that."""
    monkeypatch.setenv("MNEMIC_BASE_URL", model.base_url)
    monkeypatch.setenv("MNEMIC_API_KEY", "test")
    script(model, merge(1, 2, into=BOTH), protect(3), DONE)
    return model


def held(clone: Clone, *, seconds: int) -> None:
    """A session of somebody else's that is held for so long."""

    async def begin() -> None:
        async with clone.database() as db:
            await begun(db, ANA, seconds=seconds)

    asyncio.run(begin())


def test_it_is_one_line_of_figures_and_says_how_it_is_undone(
    mnemic: Command, scripted: LoopbackModel, superuser: psycopg.Connection
) -> None:
    result = mnemic(*REFINE, "--force")
    assert (result.exit_code, result.stdout) == (
        0,
        "3 → 1 memories, 24 → 11 tokens; target 5,000, 1 protected, ended: completed\n",
    )
    assert "offline" not in result.stderr
    command = shlex.split(result.stderr.rpartition("to undo it: ")[2])
    assert mnemic(*command[1:], "--yes").exit_code == 0
    living = superuser.execute("select content from mnemic.memories where state = 'active' order by 1").fetchall()
    assert [content for (content,) in living] == sorted(TEXTS)


def test_the_audit_names_who_had_it_begun(mnemic: Command, three: None, superuser: psycopg.Connection) -> None:
    assert mnemic(*REFINE, "--force", "--actor", "keeper").exit_code == 0
    assert superuser.execute("select actor from mnemic.refinements").fetchall() == [("keeper",)]


def test_where_the_offline_rules_did_it_it_says_so(mnemic: Command, three: None) -> None:
    result = mnemic(*REFINE, "--force")
    assert result.exit_code == 0
    assert result.stdout.startswith("3 → ")
    assert "the offline rules did it: MNEMIC_AGENT_MODEL" in result.stderr


def test_json_is_the_result(mnemic: Command, scripted: LoopbackModel) -> None:
    result = mnemic(*REFINE, "--force", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (told["outcome"], told["ended"], told["resumed"]) == ("ended", "completed", False)
    assert (told["duplicates"], told["merged"], told["protected"], told["memories_after"]) == (1, 2, 1, 1)


def test_a_target_that_was_missed_is_said_to_be(
    mnemic: Command, scripted: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_REFINEMENT_TARGET_TOKENS", "10")
    script(scripted, DONE)
    assert "24 → 16 tokens; target 10, not reached, " in mnemic(*REFINE, "--force").stdout


def test_where_nothing_changed_it_says_so_and_nothing_is_remembered_of_it(
    clean_db: Clone, mnemic: Command, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_ADMIN_URL", clean_db.administrator_dsn)

    async def store() -> None:
        async with clean_db.database() as db:
            await keep_in(db, TEXTS[0])

    asyncio.run(store())
    result = mnemic(*REFINE, "--force")
    assert result.exit_code == 0
    assert result.stdout == "nothing changed: 8 tokens in 1 memories; target 5,000, ended: completed\n"
    assert "to undo it" not in result.stderr
    assert superuser.execute("select kind from mnemic.memories").fetchall() == [("core",)]
    (told,) = json.loads(mnemic("refinements", *PERSON, "--json").stdout)
    assert (told["ended"], told["journal_id"]) == ("completed", None)
    for who, whose in ((PERSON, "of this person's memories"), (BLIND, "nothing")):
        undone = mnemic("undo", "--refinement", told["id"], *who, "--yes")
        assert (undone.exit_code, undone.stdout) == (2, "")
        assert "this refinement changed" in undone.stderr
        assert whose in undone.stderr


def test_one_that_was_broken_off_for_too_long_is_closed_and_says_what_to_do(
    clean_db: Clone, mnemic: Command, three: None, superuser: psycopg.Connection
) -> None:
    held(clean_db, seconds=0)
    superuser.execute("update mnemic.refinements set started_at = now() - interval '2 hours'")
    result = mnemic(*REFINE, "--force")
    assert result.exit_code == 1
    assert "ended: time" in result.stdout
    assert "broken off ran out of time and is closed: the same command again begins a new one" in result.stderr
    assert mnemic(*REFINE, "--force").exit_code == 0


def test_history_leads_from_what_was_merged_to_what_it_became_and_back(
    mnemic: Command, scripted: LoopbackModel
) -> None:
    mnemic(*REFINE, "--force")
    listed = json.loads(mnemic("memories", *PERSON, "--all", "--json").stdout)
    whole = next(one["id"] for one in listed if one["content"] == BOTH)
    (added, *_) = json.loads(mnemic("history", whole, *PERSON, "--json").stdout)
    assert len(added["merged_from"]) == 2
    shown = mnemic("history", whole, *PERSON).stdout
    for part in added["merged_from"]:
        assert f"merged from: {part}" in shown
        assert f"merged into: {whole}" in mnemic("history", part, *PERSON).stdout
        assert json.loads(mnemic("history", part, *PERSON, "--json").stdout)[-1]["merged_into"] == whole


def test_what_is_within_its_budget_is_left_as_it_is(
    mnemic: Command, three: None, superuser: psycopg.Connection
) -> None:
    before = everything(superuser)
    for words in ((), ("--dry-run",)):
        result = mnemic(*REFINE, *words)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == "not due: 24 tokens in 3 memories; --force refines them all the same\n"
        assert json.loads(mnemic(*REFINE, *words, "--json").stdout)["outcome"] == "not_due"
    assert everything(superuser) == before


def test_nothing_is_not_due_and_force_is_not_recommended(mnemic: Command, three: None) -> None:
    assert mnemic("refine", *BLIND, "--force").stdout == "not due: 0 tokens in 0 memories\n"


def test_a_dry_run_tells_what_there_is_and_writes_nothing(
    mnemic: Command, three: None, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(superuser)
    monkeypatch.setenv("MNEMIC_REFINEMENT_TARGET_TOKENS", "10")
    told = "due: 24 tokens in 3 memories, protected 0, exact duplicates 1; target 10 tokens\n"
    assert mnemic(*REFINE, "--dry-run", "--force").stdout == told
    monkeypatch.setenv("MNEMIC_REFINEMENT_BUDGET_TOKENS", "10")
    assert mnemic(*REFINE, "--dry-run").stdout == told
    assert json.loads(mnemic(*REFINE, "--dry-run", "--json").stdout)["outcome"] == "planned"
    assert everything(superuser) == before


def test_one_that_runs_keeps_others_out_and_one_broken_off_is_resumed(
    clean_db: Clone, mnemic: Command, three: None, superuser: psycopg.Connection
) -> None:
    held(clean_db, seconds=600)
    for words in ((), ("--force",), ("--dry-run",)):
        result = mnemic(*REFINE, *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert re.search(r"has been running for \d+ seconds: wait", result.stderr)
    assert "running\n" in mnemic("refinements", *BLIND).stdout.replace(" ", "")

    superuser.execute("update mnemic.refinements set until = clock_timestamp()")
    assert "broken off" in mnemic("refinements", *PERSON).stdout
    assert "goes on with a session that was broken off" in mnemic(*REFINE, "--dry-run").stdout
    assert ", resumed, ended: " in mnemic(*REFINE).stdout


@pytest.mark.parametrize("who", [PERSON, BLIND])
def test_they_are_listed_with_figures(mnemic: Command, scripted: LoopbackModel, who: tuple[str, ...]) -> None:
    assert mnemic("refinements", *who).stderr == "no refinements\n"
    mnemic(*REFINE, "--force")
    result = mnemic("refinements", *who)
    (told,) = json.loads(mnemic("refinements", *who, "--json").stdout)
    assert result.exit_code == 0
    for figure in (
        told["id"],
        "user:ana",
        "3 → 1 ",
        "24 → 11 ",
        "target 5,000",
        "merged 2",
        "completed",
        "administrator",
    ):
        assert figure in result.stdout
    assert (told["ended"], told["is_held"], told["tokens_after"]) == ("completed", False, 11)
    mnemic(*REFINE, "--force")
    assert len(json.loads(mnemic("refinements", *who, "--json", "--limit", 1).stdout)) == 1
    assert len(json.loads(mnemic("refinements", *who, "--json").stdout)) == 2


def test_an_id_stays_on_one_line(mnemic: Command, three: None, monkeypatch: pytest.MonkeyPatch) -> None:
    mnemic(*REFINE, "--force")
    monkeypatch.setenv("COLUMNS", "80")
    (told,) = json.loads(mnemic("refinements", *BLIND, "--json").stdout)
    assert any(told["id"] in line for line in mnemic("refinements", *BLIND).stdout.splitlines())


def test_a_person_sees_their_own(mnemic: Command, three: None) -> None:
    mnemic(*REFINE, "--force")
    assert mnemic("refinements", "--agent", "harbor", "--user", "bo").stderr == "no refinements\n"
    assert len(json.loads(mnemic("refinements", *PERSON, "--json").stdout)) == 1  # the control


def test_nothing_of_it_says_what_a_memory_says(mnemic: Command, scripted: LoopbackModel) -> None:
    said = ""
    for words in (
        (*REFINE, "--dry-run", "--force"),
        (*REFINE, "--force"),
        ("refinements", *PERSON),
        ("refinements", *BLIND),
        ("refinements", *BLIND, "--json"),
        (*REFINE, "--force", "--json"),
    ):
        result = mnemic(*words)
        assert result.exit_code == 0
        said += result.stdout + result.stderr
    for word in ("English", "short", "put together"):
        assert word not in said
    assert BOTH in mnemic("memories", *PERSON).stdout  # the control


def test_a_context_that_has_outgrown_its_budget_says_what_to_do(
    mnemic: Command, three: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "outgrown" not in mnemic("recall", *PERSON).stderr
    for size in ("BUDGET", "TARGET"):
        monkeypatch.setenv(f"MNEMIC_REFINEMENT_{size}_TOKENS", "10")
    said = mnemic("recall", *PERSON).stderr
    assert "the core memory of user:ana has outgrown its budget" in said
    command = shlex.split(said.rpartition("to compress it: ")[2])
    assert mnemic(*command[1:]).stdout.startswith("3 → ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("refine", "nonsense", *BLIND), "a scope key is written as"),
        (("refine", "agent:museum", *BLIND), "none of this identity's"),
        (("refine", "user: ana", *BLIND), "SCOPE_KEY: an id is printable text"),
        (("refine", "user:ana", "--agent", " "), "--agent: an id is printable text"),
        (("refine", "--agent", ""), "--agent: an id is printable text"),
        (("refine", "user:ana", *BLIND, "--actor", ""), "--actor: an id is printable text"),
        (
            ("refinements", *BLIND, "--session", "s1"),
            "--session goes with --user: an administrator sees every scope key",
        ),
        (("refinements", *BLIND, "--group", "crew"), "--group goes with --user: an administrator sees every scope key"),
        (("refinements", *BLIND, "--limit", 0), "limit: "),
    ],
)
def test_what_cannot_be_meant_is_one_line_that_says_what_to_write(
    mnemic: Command, three: None, superuser: psycopg.Connection, words: tuple[str, ...], said: str
) -> None:
    before = everything(superuser)
    result = mnemic(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert everything(superuser) == before


@pytest.mark.parametrize(("key", "kept"), [("group:crew", "group:crew"), ("session:s1", "session:s1")])
def test_shared_memory_and_a_sessions_is_refined_by_its_scope_key(
    clean_db: Clone, mnemic: Command, superuser: psycopg.Connection, key: str, kept: str
) -> None:
    async def store() -> None:
        async with clean_db.database() as db:
            await keep_in(db, *TEXTS[1:], who=ANA, key=key)

    asyncio.run(store())
    assert mnemic("refine", key, *BLIND, "--force").stdout.startswith("2 → 1 memories")
    assert superuser.execute("select scope_key from mnemic.refinements").fetchall() == [(kept,)]
