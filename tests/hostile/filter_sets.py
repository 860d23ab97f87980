"""Filter sets that somebody would send who wants to see others' memories, and what each of them has to find."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row
from pydantic import ValidationError

from mnemic.state.identity import Identity
from mnemic.state.query import MemoryFilters

#: Ids of others, and in their places such as nobody has.
FOREIGN = {"<user>": "carl", "<agent>": "museum", "<run>": "run-carl", "<actor>": "carl-bot"}
UNKNOWN = {"<user>": "nobody", "<agent>": "nowhere", "<run>": "run-none", "<actor>": "no-bot"}
_INJECTED = (
    "ana' or '1'='1",
    "'; update memories set scope_key = 'user:ana'; --",
    "bo') or true or ('' = '",
    "%",
    "_",
    "*",
    "user:bo",
    "bo\\",
    "$.** ? (1==1)",
    "%(agent_id)s",
    "$1",
    "{bo,carl}",
    "ANA",
    "bо",
    "bo\u200b",
    " bo",
    "bo\x00",
    "null",
)
_KEYS = (
    "scope_key",
    "user_id'--",
    "meta->>'x'",
    "$or",
    "user_id__ne",
    "category",
    "agent",
    "1=1",
    "",
    "state",
    "living",
)
_VALUES: Mapping[str, Sequence[Any]] = {
    "user_id": ("ana", "bo", *["<user>"] * 8, *_INJECTED),
    "agent_id": ("harbor", "harbor", *["<agent>"] * 3, *_INJECTED[:6]),
    "run_id": ("run-ana", "run-bo", *["<run>"] * 3, *_INJECTED[:6]),
    "actor_id": ("ana", "bo", "ana-bot", *["<actor>"] * 3, *_INJECTED[:6]),
    "role": ("supervisor", "planner", "user", "assistant", "owner", "mnemic_owner", *_INJECTED[:4]),
    "pinned": (True, False, False, 1, "true"),
    "importance_min": (1, 2, 3, 0, "1", 2.0),
    "importance_max": (5, 4, 3, 9, True),
    "updated_after": ("2026-01-01", "2026-03-15", "2026-06-01T00:00:00+02:00", "0001-01-01", "now()", "infinity"),
    "updated_before": ("2026-12-31", "2026-05-01", "9999-12-31T23:59:59Z", "2026-02-30", 10**18, "-infinity"),
}
_NESTED: Sequence[Any] = ({"$ne": ""}, ["ana", "bo"], {"or": [{"user_id": "bo"}]}, [[]], {})


def filter_sets(count: int) -> list[dict[str, Any]]:
    """So many different sets of one to four conditions, some with keys and values of no filter; always the same."""
    dice = random.Random(6)
    found: dict[str, dict[str, Any]] = {}
    while len(found) < count:
        names = dice.sample(sorted(_VALUES), dice.choice((1, 1, 2, 2, 3, 4)))
        wanted: dict[str, Any] = {name: dice.choice(_VALUES[name]) for name in names}
        if dice.random() < 0.08:
            wanted[dice.choice(_KEYS)] = dice.choice(_INJECTED)
        if dice.random() < 0.05:
            wanted[dice.choice(names)] = dice.choice(_NESTED)
        found.setdefault(repr(sorted(wanted.items())), wanted)
    return list(found.values())


def with_ids(wanted: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """The set with these ids in the places of others'."""
    return {name: ids.get(value, value) if isinstance(value, str) else value for name, value in wanted.items()}


def is_refused(wanted: Mapping[str, Any]) -> bool:
    """Whether a set is none that can be asked."""
    try:
        MemoryFilters.model_validate(wanted)
    except ValidationError:
        return True
    return any(isinstance(value, str) and "\x00" in value for value in wanted.values())


@dataclass(frozen=True)
class Row:
    """What filters look at, of a memory or a message."""

    id: UUID
    agent_id: str
    scope_key: str
    user_id: str | None
    run_id: str | None
    actor_id: str | None
    role: str | None
    pinned: bool
    importance: int
    updated_at: datetime

    def is_of(self, who: Identity) -> bool:
        """Whether an identity may see it at all."""
        return self.agent_id == who.agent_id and self.scope_key in who.scope_keys

    def meets(self, wanted: MemoryFilters) -> bool:
        """Whether it meets every condition."""
        own = {"agent_id": self.agent_id, "run_id": self.run_id, "actor_id": self.actor_id, "role": self.role}
        return (
            all(getattr(wanted, name) in (None, value) for name, value in own.items())
            and (wanted.user_id is None or self.scope_key == f"user:{wanted.user_id}" or self.user_id == wanted.user_id)
            and wanted.pinned in (None, self.pinned)
            and (wanted.importance_min or 1) <= self.importance <= (wanted.importance_max or 5)
            and (wanted.updated_after is None or self.updated_at >= wanted.updated_after)
            and (wanted.updated_before is None or self.updated_at < wanted.updated_before)
        )


def everything(superuser: psycopg.Connection) -> list[Row]:
    """All memories and messages of everybody."""
    cursor = superuser.cursor(row_factory=class_row(Row))
    return cursor.execute(
        "select id, agent_id, scope_key, subject_user_id as user_id, run_id, actor_id, role, pinned, importance,"
        " updated_at from mnemic.memories"
        " union all"
        " select id, agent_id, scope_key, user_id, null, user_id, role, false, 2, said_at from mnemic.messages"
    ).fetchall()


def expected(rows: Sequence[Row], who: Identity, wanted: Mapping[str, Any]) -> set[UUID] | None:
    """What an identity has to get; None: a refusal."""
    if is_refused(wanted):
        return None
    conditions = MemoryFilters.model_validate(wanted)
    return {row.id for row in rows if row.is_of(who) and row.meets(conditions)}
