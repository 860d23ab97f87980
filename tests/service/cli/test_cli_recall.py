"""`mnemic query`: every part of a request as an option, and the grounds of each score."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mnemic.service.cli import recall as command
from mnemic.state.records import Explanation, Found
from tests.service.cli.conftest import Command
from tests.support.known import fact
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, remember

WHO = ("--agent", "harbor", "--user", "ana")
TASK = fact("Ana ships the catalogue in May.", "tasks", importance=4)
TONE = fact("Ana likes a dry tone in the catalogue.", "tone")
SHARED = fact("The guild prints the catalogue.", "tasks", key="agent:harbor", valid_from=MORNING + timedelta(days=9))
STEPS = fact("1. Fold the catalogue. 2. Stamp it.", "procedural", kind="procedure")


@pytest.fixture
def recall(mnemic: Command, clean_db: Clone) -> Any:
    """What `mnemic query catalogue` with these options finds, as contents; the error where it fails."""

    async def store() -> None:
        async with clean_db.database() as db:
            await remember(db, identity(), TASK, TONE, SHARED, STEPS)

    asyncio.run(store())

    def run(*options: object) -> Any:
        result = mnemic("query", "catalogue", *WHO, *options, "--json")
        assert result.exit_code in (0, 2)
        return {one["content"] for one in json.loads(result.stdout)} if result.exit_code == 0 else result.stderr

    return run


NARROWED: list[tuple[list[str], set[Any]]] = [
    ([], {TASK, TONE, SHARED}),
    (["--role", "planner"], {TASK, SHARED}),
    (["--role", "stylist"], {TONE}),
    (["--role", "owner", "--category", "procedural"], {STEPS}),
    (["--category", "tone"], {TONE}),
    (["--category", "tone", "--category", "tasks"], {TASK, TONE, SHARED}),
    (["--scope", "agent"], {SHARED}),
    (["--scope", "agent", "--scope", "user"], {TASK, TONE, SHARED}),
    (["--filter", "importance_min=3"], {TASK}),
    (["--filter", "importance_max=3", "--filter", "pinned=false", "--filter", "user_id=ana"], {TONE}),
    (["--filter", "pinned=true"], set()),
    (["--since", "2020-01-01", "--search-type", "text"], {TASK, TONE, SHARED}),
    (["--before", "2020-01-01"], set()),
    (["--top-k", "1", "--search-type", "text", "--category", "tone"], {TONE}),
    (["--budget", "1"], set()),
    (["--threshold", "0.99"], set()),
]


@pytest.mark.thorough
def test_every_option_narrows_the_request(recall: Any) -> None:
    for options, found in NARROWED:
        assert (options, recall(*options)) == (options, {one.content for one in found})


REFUSED: list[tuple[list[str], str]] = [
    (["--role", "planner", "--category", "tone"], "not allowed for this role: tone"),
    (["--role", "nobody"], "this role has no allowlist"),
    (["--role", " "], "--role: an id is printable text"),
    (["--scope", "everybody"], "scopes: Input should be 'session'"),
    (["--filter", "importance_min"], "--filter is written as NAME=VALUE"),
    (["--filter", "importance_min=9"], "filters.importance_min: "),
    (["--filter", "mood=good"], "filters.mood: "),
    (["--since", "soon"], "filters.updated_after: "),
    (["--top-k", "0"], "top_k: "),
    (["--threshold", "2"], "threshold: "),
    (["--budget", "0"], "budget_tokens: "),
    (["--search-type", "magic"], "search_type: "),
]


@pytest.mark.thorough
def test_what_cannot_be_asked_is_one_message(recall: Any) -> None:
    for options, told in REFUSED:
        message = recall(*options)
        assert told in message, options
        assert len(message.splitlines()) == 1


def test_explain_says_how_each_score_came_about(mnemic: Command, recall: Any) -> None:
    shown = mnemic("query", "catalogue", *WHO, "--explain").stdout
    grounds = [line for line in shown.splitlines() if "words 0." in line]
    assert len(grounds) == 3
    assert all(" = " in line for line in grounds)
    assert "words" not in mnemic("query", "catalogue", *WHO).stdout


def test_the_grounds_name_what_was_added_and_what_came_along() -> None:
    found = Found(
        item_id=TASK.id, kind="fact", scope_key="user:ana", category="tasks", subject="Ana", content=TASK.content,
        dated=MORNING, importance=4, score=0.98,
        explanation=Explanation(text=0.0608, similarity=0.714, fused=0.93, from_source=True, boosts={"subject": 0.05}),
    )  # fmt: skip
    assert command.grounds(found) == (
        "0.980 = 0.930 (words 0.061, similarity 0.71) +0.050 subject;"
        " a message it was formed from fits better than its own words"
    )
    bare = replace(found, score=0.5, explanation=Explanation(fused=0.5))
    assert command.grounds(bare) == "0.500 = 0.500 (no word, no vector)"
    assert command.grounds(replace(found, related_to=TONE.id)) == f"came along: it is related to {TONE.id}"
