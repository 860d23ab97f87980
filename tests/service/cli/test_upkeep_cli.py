"""`mnemic embed`, `erase`, `purge`, `protect`, `unprotect`: listed, after a yes; `refine`, `refinements`: figures."""

import json
import re
import shlex
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.service.cli.conftest import Command, prepare
from tests.support.commands import Terminal
from tests.support.erasing import expire
from tests.support.loopback import LoopbackModel
from tests.support.refinements import BOTH, DONE, KEY, begun, drafts, merge, protect, script
from tests.support.rollbacks import ANA, everything
from tests.support.server import Clone
from tests.support.worlds import expire_leases, identity, memory, remember

PERSON = ("--agent", "harbor", "--user", "ana")
BLIND = ("--agent", "harbor")
PURGE = ("purge", *BLIND)
REFINE = ("refine", KEY, *BLIND)
TEXTS = ("Ana always wants short answers.", "Ana wants answers in English.", "Ana  wants answers in English.")


@pytest.fixture
def ids(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Two memories of Ana's, and one of Bo's that has expired two days ago."""
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "1")
    new = [memory("Ana keeps bees."), memory("Ana sings."), memory("Bo sails.", key="user:bo")]
    prepare(clean_db, lambda db: remember(db, identity(), *new, also=["user:bo"]))
    with clean_db.as_superuser() as superuser:
        expire(superuser, new[2].id)
        superuser.execute("set session_replication_role = replica")
        superuser.execute("update mnemic.history set ts = ts - interval '2 days' where reason = 'ttl'")
    return [item.id for item in new]


def states(superuser: psycopg.Connection, ids: list[UUID]) -> list[str]:
    rows: dict[UUID, str] = dict(superuser.execute("select id, state from mnemic.memories").fetchall())
    return [rows[memory_id] for memory_id in ids]


# -- embed


def test_what_has_no_vector_gets_one(mnemic: Command, ids: list[UUID], superuser: psycopg.Connection) -> None:
    without = "select count(*) from mnemic.entries where model = '' and scope_key = 'user:ana'"
    superuser.execute("update mnemic.entries set model = '', vec = null")
    result = mnemic("embed", *PERSON, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"embedded": 2, "pending": 0})
    assert superuser.execute(without).fetchone() == (0,)


@pytest.mark.thorough
def test_vectors_of_another_embedder_are_made_anew(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    superuser.execute(
        "update mnemic.entries"
        " set model = 'other:384', vec = array_fill(1, array[384])::vector::halfvec, embed_after = null"
    )
    result = mnemic("reembed", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"agents": 1, "embedded": 3, "refused": 0})
    assert superuser.execute("select distinct model from mnemic.entries").fetchall() == [("hash:384",)]
    assert json.loads(mnemic("reembed", "--agent", "harbor", "--json").stdout)["agents"] == 0


@pytest.mark.parametrize("words", [("reembed", "--agent", ""), ("audit", "verify", "--agent", "")])
def test_an_empty_agent_is_an_error_and_not_every_agent(mnemic: Command, words: tuple[str, ...]) -> None:
    result = mnemic(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--agent" in result.stderr


def test_an_empty_time_is_an_error_and_not_every_operation(mnemic: Command, ids: list[UUID]) -> None:
    assert mnemic("audit", "log", *BLIND, "--since", "").exit_code == 2


# -- erase and purge


def test_without_a_terminal_nothing_goes_without_yes(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    for what in (("erase", *PERSON, ids[0]), ("erase", *PERSON, "--everything"), PURGE):
        result, as_json = mnemic(*what), mnemic(*what, "--json")
        assert (result.exit_code, result.stdout) == (as_json.exit_code, "") == (1, "")
        assert "--yes" in result.stderr
        assert json.loads(as_json.stdout) == {"erased": []}
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]


@pytest.mark.thorough
@pytest.mark.parametrize("answer", ["n", "", "y"])
def test_at_a_terminal_they_ask(
    env: dict[str, str], ids: list[UUID], superuser: psycopg.Connection, tmp_path: Path, answer: str
) -> None:
    gone = answer == "y"
    for what in (("erase", *PERSON, ids[0]), PURGE):
        with (tmp_path / "listed").open("wb") as file, Terminal(*what, env=env, stdout=file) as terminal:
            terminal.until("for good? [y/N]")
            terminal.end(answer, code=0 if gone else 1)
    assert states(superuser, ids) == (["purged", "active", "purged"] if gone else ["active", "active", "soft_deleted"])
    with Terminal("erase", *PERSON, "--everything", "--json", env=env) as terminal:  # a program is asked nothing
        shown = terminal.end(answer, code=1)
        assert ('"erased": []' in shown, "[y/N]" in shown) == (True, False)


def test_what_goes_is_listed_and_what_is_not_theirs_is_named(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    unknown = uuid4()
    dry = mnemic("erase", *PERSON, ids[0], "--dry-run")
    assert dry.exit_code == 0
    assert f"goes: fact {ids[0]} Ana keeps bees." in " ".join(dry.stdout.split())
    planned = json.loads(mnemic("erase", *PERSON, "--everything", "--dry-run", "--json").stdout)
    assert {item["content"] for item in planned["going"]} == {"Ana keeps bees.", "Ana sings."}
    assert mnemic("erase", *PERSON, unknown, "--dry-run").exit_code == 1
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]

    result = mnemic("erase", *PERSON, "--yes", ids[0], ids[2], unknown)
    assert (result.exit_code, result.stdout.split()) == (1, f"{ids[0]} memories erased: 1, and messages: 0".split())
    assert {*result.stderr.split()} >= {str(ids[2]), str(unknown)}
    assert str(ids[0]) not in result.stderr
    assert states(superuser, ids) == ["purged", "active", "soft_deleted"]
    rest = mnemic("erase", *PERSON, "--everything", "--yes", "--json")
    assert (rest.exit_code, json.loads(rest.stdout)) == (0, {"erased": [str(ids[1])], "messages": 0, "left": 0})
    assert states(superuser, ids) == ["purged", "purged", "soft_deleted"]


def test_what_to_erase_has_to_be_said(mnemic: Command) -> None:
    for words in ((), ("--everything", uuid4())):
        result = mnemic("erase", *PERSON, "--yes", *words)
        assert (result.exit_code, "--everything" in result.stderr) == (2, True)


def test_a_purge_takes_what_expired_and_the_audit_names_who_did_it(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "3")
    assert json.loads(mnemic(*PURGE, "--yes", "--json").stdout) == {"erased": [], "messages": 0}
    monkeypatch.delenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS")
    off = mnemic(*PURGE, "--yes")
    assert (off.exit_code, "MNEMIC_RETENTION_PURGE_AFTER_DAYS" in off.stderr) == (0, True)
    assert states(superuser, ids) == ["active", "active", "soft_deleted"]
    monkeypatch.setenv("MNEMIC_RETENTION_PURGE_AFTER_DAYS", "1")
    result = mnemic(*PURGE, "--yes", "--actor", "keeper")
    assert (result.exit_code, result.stdout.split()[:4]) == (0, f"{ids[2]} memories erased: 1,".split())
    (newest, *_) = json.loads(mnemic("audit", "log", *BLIND, "--json").stdout)
    assert (newest["actor"], newest["actor_kind"], newest["events"]) == ("keeper", "admin", {"PURGE": 1})


# -- protect and unprotect


def protected(superuser: psycopg.Connection) -> set[UUID]:
    return {found for (found,) in superuser.execute("select id from mnemic.memories where protected").fetchall()}


def test_protection_is_set_and_lifted_and_the_audit_names_who_did(
    mnemic: Command, ids: list[UUID], superuser: psycopg.Connection
) -> None:
    bees, sings, _ = ids
    result = mnemic("protect", bees, *BLIND, "--actor", "keeper")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{bees}\nmemories protected: 1\n", "")
    assert protected(superuser) == {bees}
    unknown = uuid4()  # it is named, and the others change
    both = mnemic("protect", unknown, bees, sings, bees, *BLIND, "--json")
    assert (both.exit_code, json.loads(both.stdout)) == (1, {"protected": [str(sings)]})
    lifted = mnemic("unprotect", unknown, bees, sings, *BLIND, "--json")
    assert (lifted.exit_code, json.loads(lifted.stdout)) == (1, {"unprotected": [str(bees), str(sings)]})
    assert all(str(unknown) in result.stderr for result in (both, lifted))
    assert mnemic("unprotect", bees, *BLIND).stdout == "memories unprotected: 0\n"
    assert mnemic("protect", *BLIND).exit_code == mnemic("protect", "bees", *BLIND).exit_code == 2
    assert protected(superuser) == set()
    log = json.loads(mnemic("audit", "log", *BLIND, "--json").stdout)
    actors = [item["actor"] for item in log if item["reason"] == "protection"]
    assert actors == ["administrator", "administrator", "administrator", "keeper"]


# -- refine and refinements


@pytest.fixture
def three(clean_db: Clone) -> None:
    """Three core memories of Ana's, of which two are the same but for white space."""
    prepare(clean_db, lambda db: remember(db, ANA, *drafts(*TEXTS)))


@pytest.fixture
def scripted(three: None, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch) -> LoopbackModel:
    """An agent that merges what is left of them and protects that."""
    monkeypatch.setenv("MNEMIC_BASE_URL", model.base_url)
    monkeypatch.setenv("MNEMIC_API_KEY", "test")
    script(model, merge(1, 2, into=BOTH), protect(3), DONE)
    return model


def listed(mnemic: Command, *words: Any) -> Any:
    return json.loads(mnemic("refinements", *words, "--json").stdout)


def test_upkeep_prints_one_line_of_figures_that_is_listed_with_its_undo(
    mnemic: Command, scripted: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mnemic("refinements", *BLIND).stderr == "no refinements\n"
    result = mnemic(*REFINE, "--force", "--actor", "keeper")

    figures, spent = result.stdout.splitlines()
    assert (result.exit_code, "offline" in result.stderr, spent.startswith("models: ")) == (0, False, True)
    for part in ("24 tokens in 3 memories → 11 tokens in 1 ", "target 5,000", "protected 1", "ended: completed"):
        assert part in figures
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
    memories = {item["content"]: item["id"] for item in json.loads(mnemic("memories", *PERSON, "--json").stdout)}
    whole = memories[BOTH]  # the control
    (added, *_) = json.loads(mnemic("history", whole, *PERSON, "--json").stdout)
    assert len(added["merged_from"]) == 2
    for part in added["merged_from"]:
        assert part in mnemic("history", whole, *PERSON).stdout
        assert whole in mnemic("history", part, *PERSON).stdout
    command = shlex.split(result.stderr.rpartition("to undo it: ")[2])
    assert mnemic(*command[1:], "--yes").exit_code == 0
    living = superuser.execute("select content from mnemic.memories where state = 'active' order by 1").fetchall()
    assert [content for (content,) in living] == sorted(TEXTS)


def test_where_nothing_changed_it_says_so_and_there_is_nothing_to_undo(mnemic: Command, clean_db: Clone) -> None:
    prepare(clean_db, lambda db: remember(db, ANA, *drafts(TEXTS[0])))
    result = mnemic(*REFINE, "--force")
    assert (result.exit_code, "undo" in result.stderr, "MNEMIC_AGENT_MODEL" in result.stderr) == (0, False, True)
    assert result.stdout.startswith("8 tokens in 1 memories → 8 tokens in 1 memories")
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
    hers = json.loads(mnemic("refine", *BLIND, "--user", "ana", "--json").stdout)
    assert (hers["scope_key"], mnemic("refine", "user:ana", *BLIND, "--user", "ana").exit_code) == ("user:ana", 2)
    for size in ("BUDGET", "TARGET"):
        monkeypatch.setenv(f"MNEMIC_REFINEMENT_{size}_TOKENS", "10")
    planned = mnemic(*REFINE, "--dry-run").stdout
    for figures in ("due: 24 tokens in 3 memories", "protected 0", "exact duplicates 1", "target 10 tokens"):
        assert figures in planned
    assert json.loads(mnemic(*REFINE, "--dry-run", "--json").stdout)["outcome"] == "planned"
    assert everything(superuser) == before
    # what a recall recommends is this command
    recommended = mnemic("recall", *PERSON).stderr.rpartition("to refine it: ")[2]
    assert mnemic(*shlex.split(recommended)[1:]).stdout.startswith("24 tokens in 3 memories → ")


def test_running_upkeep_excludes_others_and_a_broken_one_resumes_or_closes(
    clean_db: Clone, mnemic: Command, three: None, superuser: psycopg.Connection
) -> None:
    prepare(clean_db, lambda db: begun(db, ANA, seconds=600))
    refused = mnemic(*REFINE)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert re.search(r"running for \d+ seconds", refused.stderr)
    assert "running\n" in mnemic("refinements", *BLIND).stdout.replace(" ", "")
    expire_leases(superuser)
    assert "interrupted" in mnemic("refinements", *PERSON).stdout
    assert "interrupted" in mnemic(*REFINE, "--dry-run").stdout
    superuser.execute("update mnemic.refinements set started_at = now() - interval '2 hours'")
    result = mnemic(*REFINE, "--force")
    assert (result.exit_code, "resumed, ended: time" in result.stdout) == (1, True)
    assert "repeat the command" in result.stderr
    assert mnemic(*REFINE, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("refine", "nonsense", *BLIND), "scope_key"),
        (("refine", "user: ana", *BLIND), "--user"),
        (("refine", "--agent", ""), "--agent"),
        ((*REFINE, "--actor", ""), "--actor"),
        (("refinements", *BLIND, "--session", "s1"), "--session and --group need --user"),
    ],
)
def test_what_cannot_be_meant_is_one_line_that_names_it(mnemic: Command, words: tuple[str, ...], named: str) -> None:
    result = mnemic(*words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert named in result.stderr
