"""A reader in a model's place who knows what is expected of the example conversations, and answers from the request."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from benchmarks.corpus.forming import sessions
from benchmarks.corpus.matching import Expected, expectations, matches
from benchmarks.corpus.pairs import pairs
from mnemic.models.loopback import Request
from mnemic.models.replay import Exchange
from mnemic.prompts.consolidation.write_consolidation import WRITE_CONSOLIDATION
from mnemic.prompts.formation.decide import DECIDE
from mnemic.prompts.formation.extraction import EXTRACT_FACTS, EXTRACT_REFLECTIONS
from tests.support.scripted import (
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
)

_CATEGORIES = {"fact": "activity", "plan": "event", "preference": "preferences", "wish": "style"}
_SHOWN = re.compile(r"^\s*(new|known) (\d+) .*?\]: (.*)$", re.MULTILINE)


def answered(asked: Exchange, request: Request) -> dict[str, Any]:
    """The message for a request; of a session of which nothing is expected there is nothing to keep."""
    wanted = [one for one in expectations()[0] if one.session == asked.session]
    made: dict[str, Callable[[], BaseModel]] = {
        EXTRACT_FACTS.prompt.name: lambda: facts(*(_draft(one) for one in wanted)),
        DECIDE.prompt.name: lambda: _decided(request),
        EXTRACT_REFLECTIONS.prompt.name: lambda: reflections(**_reflected(wanted)),
        WRITE_CONSOLIDATION.prompt.name: lambda: consolidation(f"What was told until {asked.session}."),
    }
    return {"role": "assistant", "content": made[asked.step]().model_dump_json()}


def _draft(one: Expected) -> Any:
    scope, owner = one.scope_key.split(":")
    number = _said(one, None if scope == "group" else owner)
    category = "projects" if scope == "group" else _CATEGORIES[one.kind]
    return fact(one.statement, number, subject=owner.capitalize(), scope=scope, category=category)


def _reflected(wanted: list[Expected]) -> dict[str, Any]:
    """Two a session, of the first speaker's; those of the retro are the group's."""
    scope = "group" if wanted and wanted[0].scope_key.startswith("group:") else "user"
    drafts = [reflection(f"In short: {one.statement}", _said(one, None)) for one in wanted[:2]]
    return {scope: drafts} if drafts else {}


def _said(one: Expected, owner: str | None) -> int:
    """The number of the line that says most of a fact, of its owner's lines where it is somebody's."""
    (rows,) = [rows for rows in sessions() if rows[0]["session"] == one.session]
    users = [number for number, row in enumerate(rows, start=1) if row["role"] == "user"]
    own = [number for number in users if owner in (None, rows[number - 1]["author"])] or users
    return max(own, key=lambda number: sum(matches((group,), rows[number - 1]["content"]) for group in one.must))


def pairs_answered(asked: Exchange, request: Request) -> dict[str, Any]:
    """The message for a request about the pairs of a person: each closes what it has to, if that is shown."""
    shown = request["messages"][-1]["content"]
    name, given = next((name, given) for who, given in pairs().items() if (name := who.capitalize()) in shown)
    texts = [pair.new or f"{name} told of number {number}." for number, pair in enumerate(given)]
    drafts = [fact(text, number, subject=name) for number, text in enumerate(texts, start=1)]
    made: dict[str, Callable[[], BaseModel]] = {
        EXTRACT_FACTS.prompt.name: lambda: facts(*drafts),
        DECIDE.prompt.name: lambda: _closing(request, {pair.old: pair.new for pair in given if pair.closes}),
    }
    return {"role": "assistant", "content": made[asked.step]().model_dump_json()}


def _decided(request: Request) -> BaseModel:
    listed = expectations()[0]
    statements = {one.id: one.statement for one in listed}
    return _closing(request, {one.statement: statements[one.replaced_by] for one in listed if one.replaced_by})


def _closing(request: Request, successors: Mapping[str, str]) -> BaseModel:
    """Whatever has a new fact for its successor is closed by that."""
    shown = _SHOWN.findall(request["messages"][-1]["content"])
    known = {text: int(number) for kind, number, text in shown if kind == "known"}
    made = []
    for number, text in [(int(number), text) for kind, number, text in shown if kind == "new"]:
        old = [place for said, place in known.items() if successors.get(said) == text]
        made.append(decision(number, "DELETE" if old else "ADD", *old, text=text))
    return decisions(*made)


def dumped(exchanges: list[Exchange]) -> str:
    """A record's lines."""
    return "".join(json.dumps(one._asdict(), ensure_ascii=False) + "\n" for one in exchanges)
