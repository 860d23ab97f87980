"""`mnemic query`, `recall`, `memories` and `history`: what is found and stored, and nothing that steers a terminal."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic.service.cli import recall as command
from mnemic.state.records import Explanation, SearchResult, Supersession
from mnemic.storage import memories as stored_memories
from tests.service.cli.conftest import Command, prepare
from tests.support.searching import fact, keep
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, message, operate, remember

WHO = ("--agent", "harbor", "--user", "ana")
TASK = fact("Ana ships the catalogue in May.", "tasks", importance=4)
TONE = fact("Ana likes a dry tone in the catalogue.", "style")
SHARED = fact("The guild prints the catalogue.", "tasks", key="agent:harbor", valid_from=MORNING + timedelta(days=9))
STEPS = fact("1. Fold the catalogue. 2. Stamp it.", "procedural", kind="procedure")


@pytest.fixture
def recall(mnemic: Command, clean_db: Clone) -> Any:
    """What `mnemic query catalogue` with these options finds, as contents."""
    prepare(clean_db, lambda db: remember(db, identity(), TASK, TONE, SHARED, STEPS))

    def run(*options: object) -> Any:
        return {item["content"] for item in json.loads(mnemic("query", "catalogue", *WHO, *options, "--json").stdout)}

    return run


NARROWED: list[tuple[list[str], set[Any]]] = [
    ([], {TASK, TONE, SHARED}),
    (["--role", "planner"], {TASK, SHARED}),
    (["--role", "owner", "--category", "procedural", "--category", "style"], {STEPS, TONE}),
    (["--scope", "agent"], {SHARED}),
    (["--filter", "importance_min=3"], {TASK}),
    (["--filter", "importance_max=3", "--filter", "pinned=false", "--filter", "user_id=ana"], {TONE}),
    (["--since", "2020-01-01", "--search-type", "text"], {TASK, TONE, SHARED}),
    (["--before", "2020-01-01"], set()),
    (["--top-k", "1", "--search-type", "text", "--category", "style"], {TONE}),
    (["--budget", "1"], set()),
    (["--threshold", "0.99"], set()),
]


@pytest.mark.thorough
def test_every_option_narrows_the_request(recall: Any) -> None:
    for options, found in NARROWED:
        assert (options, recall(*options)) == (options, {item.content for item in found})


def test_what_cannot_be_asked_is_one_message(mnemic: Command) -> None:
    for options, reason in (
        (["--role", "planner", "--category", "style"], "allowed: goals, tasks"),
        (["--role", " "], "--role: must be printable text"),
        (["--scope", "everybody"], "--scope: use 'session'"),
        (["--filter", "importance_min"], "--filter is written as NAME=VALUE"),
        (["--filter", "importance=3"], "the nearest is importance_min"),
        (["--filter", "boats=3"], "--filter boats: there is no filter of this name; use user_id"),
        (["--filter", "importance_min=9"], "--filter importance_min: "),
        (["--since", "soon"], "--since must be a day such as 2026-"),
        (["--filter", "updated_before=soon"], "--filter updated_before: must be a day such as 2026-"),
    ):
        result = mnemic("query", "catalogue", *WHO, *options)
        assert (result.exit_code, result.stderr.count("\n"), reason in result.stderr) == (2, 1, True), options


def test_explain_says_how_each_score_came_about_and_what_came_along(mnemic: Command, recall: Any) -> None:
    shown = mnemic("query", "catalogue", *WHO, "--explain").stdout
    assert sum("words 0." in line and " = " in line for line in shown.splitlines()) == 3
    found = SearchResult(
        id=TASK.id, kind="fact", scope_key="user:ana", category="tasks", subject="Ana", content=TASK.content,
        dated=MORNING, importance=4, score=0.98, created_at=MORNING, updated_at=MORNING,
        explanation=Explanation(text=0.0608, similarity=0.714, fused=0.93, from_source=True, boosts={"subject": 0.05}),
    )  # fmt: skip
    assert command.grounds(found) == (
        "0.980 = 0.930 (words 0.061, similarity 0.71) +0.050 subject;"
        " by a source message, which fits better than its own text"
    )
    bare = replace(found, score=0.5, explanation=Explanation(fused=0.5))
    assert command.grounds(bare) == "0.500 = 0.500 (no word, no vector)"
    assert command.grounds(replace(found, related_to=TONE.id)) == f"added, since it is related to {TONE.id}"


def test_each_result_has_the_id_that_other_commands_take(mnemic: Command, recall: Any) -> None:
    assert str(TASK.id) in mnemic("query", "catalogue", *WHO).stdout
    assert mnemic("forget", TASK.id, *WHO).stdout.startswith(str(TASK.id))
    assert str(TASK.id) not in mnemic("query", "catalogue", *WHO).stdout
    again = mnemic("forget", TASK.id, *WHO, "--json")
    assert json.loads(again.stdout) == {"id": str(TASK.id), "changed": False}


def test_the_history_of_an_update_shows_the_values(mnemic: Command, recall: Any) -> None:
    assert mnemic("update", TASK.id, *WHO, "--pin", "--until", "2030-01-01").exit_code == 0
    shown = mnemic("history", TASK.id, *WHO).stdout
    assert "pinned: false → true" in shown
    assert "2030-01-01T00:00:00" in shown
    assert "(update_values)" in shown


def test_an_unknown_id_is_named(mnemic: Command, recall: Any) -> None:
    unknown = "6d0f2b1e-6c0e-5b5e-9f0a-5f1b6f6d7a11"
    told = mnemic("history", unknown, *WHO)
    assert (told.exit_code, unknown in told.stderr) == (1, True)


# -- what is stored

HOSTILE = "Ana's [bold]badge[/bold] says \x1b]0;owned\x07\x1b[31mred\x9b2J \u202egnp.exe"


@pytest.fixture
def world(clean_db: Clone) -> dict[str, UUID]:
    """Ana's job, which another one replaced, a standing text, and a memory with control characters in it."""
    old, new = memory("Ana works for the harbour office."), memory("Ana works for the ferry line.")
    consolidation = memory("Ana is direct.\nShe wants short answers.", kind="consolidation")
    hostile = memory(HOSTILE, valid_from=MORNING + timedelta(days=1))
    change = Supersession(old.id, old_version=1, new_id=new.id, until=MORNING + timedelta(days=30))
    prepare(
        clean_db,
        lambda db: remember(db, identity(), old, consolidation, hostile),
        lambda db: remember(db, identity(), new),
        lambda db: operate(db, identity(), lambda tx: stored_memories.supersede(tx, [change])),
    )
    return {"old": old.id, "new": new.id, "consolidation": consolidation.id, "hostile": hostile.id}


def folded(text: str) -> str:
    return " ".join(text.split())


def test_recall_finds_with_date_and_score(mnemic: Command, world: dict[str, UUID]) -> None:
    result = mnemic("query", "Who does Ana work for?", *WHO)
    assert result.exit_code == 0
    first = next(line for line in result.stdout.splitlines() if "ferry" in line)
    assert first.startswith("2026-03-02")
    assert "harbour office" not in result.stdout
    found = json.loads(mnemic("query", "Who does Ana work for?", *WHO, "--json").stdout)
    assert str(world["new"]) in [item["id"] for item in found]
    assert all(item["score"] > 0 for item in found)


def test_another_person_finds_nothing(mnemic: Command, world: dict[str, UUID]) -> None:
    stranger = ("--agent", "harbor", "--user", "bo")
    assert json.loads(mnemic("query", "Who does Ana work for?", *stranger, "--json").stdout) == []
    assert json.loads(mnemic("memories", *stranger, "--all", "--json").stdout) == []
    result, as_json = mnemic("history", world["new"], *stranger), mnemic("history", world["new"], *stranger, "--json")
    assert (result.exit_code, as_json.exit_code, json.loads(as_json.stdout)) == (1, 1, [])
    assert str(world["new"]) in result.stderr


def test_a_person_sees_what_no_agents_allowlist_shows_by_default(mnemic: Command, recall: Any) -> None:
    assert str(STEPS.id) in {item["id"] for item in json.loads(mnemic("memories", *WHO, "--json").stdout)}
    assert json.loads(mnemic("history", STEPS.id, *WHO, "--json").stdout)
    assert STEPS.content not in recall()


def test_memories_are_listed_by_kind_and_closed_ones_only_where_asked(
    mnemic: Command, world: dict[str, UUID], superuser: psycopg.Connection
) -> None:
    superuser.execute("set session_replication_role = replica")
    superuser.execute("update mnemic.memories set pinned = true, protected = id = %(new)s", world)
    living, everything = (folded(mnemic("memories", *WHO, *words).stdout) for words in ((), ("--all",)))
    assert f"fact, protected, pinned Ana works for the ferry line. {world['new']}" in living
    assert "harbour office" not in living
    for shown in ("fact, pinned, superseded", "harbour office", "until 2026-04-01", str(world["new"])[:8]):
        assert shown in everything
    only = json.loads(mnemic("memories", *WHO, "--kind", "consolidation", "--json").stdout)
    assert [item["id"] for item in only] == [str(world["consolidation"])]


def test_history_prints_events_with_time_actor_reason_and_erased_words(mnemic: Command, world: dict[str, UUID]) -> None:
    events = json.loads(mnemic("history", world["old"], *WHO, "--json").stdout)
    assert [(event["event"], event["actor"], event["reason"]) for event in events] == [
        ("ADD", "ana", "formation"),
        ("SUPERSEDE", "ana", "formation"),
    ]
    shown = folded(mnemic("history", world["old"], *WHO).stdout)
    assert all(event["event"] in shown and event["ts"][:10] in shown for event in events)
    assert "Ana works for the harbour office." in shown

    assert mnemic("erase", world["old"], *WHO, "--yes").exit_code == 0
    listed = mnemic("memories", *WHO, "--all").stdout
    assert ("fact, purged" in listed, "None" in listed, "its content was erased" in listed) == (True, False, True)
    erased = mnemic("history", world["old"], *WHO).stdout
    assert ("ERASE" in erased, erased.count("its content was erased")) == (True, len(events) + 1)


def test_context_is_the_text_for_the_prompt_and_its_price(mnemic: Command, world: dict[str, UUID]) -> None:
    result = mnemic("recall", *WHO)
    assert result.stdout.startswith("<MemoryContext>")
    assert "Ana is direct.\nShe wants short answers." in result.stdout
    assert "searched: no" in result.stderr
    recalled = json.loads(mnemic("recall", "Do you remember who I work for?", *WHO, "--json").stdout)
    assert recalled["searched"]
    assert "ferry line" in recalled["context"]["standing"] + recalled["context"]["turn"]


def test_stored_control_characters_and_markup_reach_no_terminal(mnemic: Command, world: dict[str, UUID]) -> None:
    recall = ("recall", "Do you remember my badge?")
    for words in (recall, ("query", "badge"), ("memories",), ("history", world["hostile"])):
        result, as_json = mnemic(*words, *WHO), mnemic(*words, *WHO, "--json")
        assert "[bold]badge[/bold]" in result.stdout
        assert "badge" in str(json.loads(as_json.stdout))
        assert not [char for char in result.stdout + as_json.stdout if not char.isprintable() and char != "\n"], words


def test_a_correction_is_told_and_seen_in_the_memorys_history(mnemic: Command, world: dict[str, UUID]) -> None:
    done = mnemic("correct", world["new"], "Ana works for the ferry office.", *WHO)
    assert (done.exit_code, f"{world['new']} is replaced by" in done.stdout) == (0, True)
    assert "ferry office" in mnemic("memories", *WHO).stdout
    told = json.loads(mnemic("history", world["new"], *WHO, "--json").stdout)
    assert [(event["event"], event["reason"]) for event in told][-1] == ("SUPERSEDE", "correct")
    again = mnemic("correct", world["new"], "Ana works for nobody.", *WHO, "--json")
    assert (again.exit_code, again.stdout, "was replaced by" in again.stderr) == (2, "", True)
    as_json = mnemic("correct", world["hostile"], "Ana wears no badge.", *WHO, "--json").stdout
    assert json.loads(as_json)["old_id"] == str(world["hostile"])


def test_a_memory_is_listed_and_found_with_the_day_where_it_was_said(mnemic: Command, clean_db: Clone) -> None:
    evening = fact("Ana paid the rent.", "tasks", valid_from=datetime.fromisoformat("2026-03-02T20:30:00-05:00"))
    prepare(clean_db, lambda db: remember(db, identity(), evening))
    for words in (("memories",), ("query", "rent")):
        shown = mnemic(*words, *WHO).stdout
        assert ("2026-03-02" in shown, "2026-03-03" in shown) == (True, False)


def test_messages_are_listed_and_counted(mnemic: Command, clean_db: Clone) -> None:
    said = message("I keep bees.")
    prepare(clean_db, lambda db: keep(db, said))
    listed = json.loads(mnemic("messages", *WHO, "--session", "s1", "--json").stdout)
    assert [(row["role"], row["session_id"], row["content"]) for row in listed] == [("user", "s1", "I keep bees.")]
    assert "I keep bees." in mnemic("messages", *WHO).stdout
    assert mnemic("messages", *WHO, "--count").stdout.strip() == "1"
    others = json.loads(mnemic("messages", "--agent", "harbor", "--user", "bo", "--count", "--json").stdout)
    assert others == {"count": 0}
