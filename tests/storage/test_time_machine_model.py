"""All operations on memories, the Time Machine among them, in any order: what a model in plain Python says, happens.

The controls: statements of the Time Machine made wrong on purpose are each found out.
"""

import re
from collections.abc import Mapping

import psycopg
import pytest
from hypothesis import Phase, settings

from mnemic.memory.governance import rollback
from mnemic.storage import history
from tests.support.machine import run_machines
from tests.support.mutating import mutate, worsen
from tests.support.server import Clone

pytestmark = pytest.mark.thorough

#: What the rollbacks of few machines have to have met, and those of many, or the comparison would say little.
OFTEN = {
    *(f"undo: done with {part}" for part in ("changes", "links")),
    *(f"undo: refused with {part}" for part in ("later", "twins")),
    *(f"restore: done with {part}" for part in ("changes", "links")),
    "undo: unknown",
    *("DEDUP", "MERGE", "UPDATE", "DELETE", "PROTECT"),
    *(f"undo refinement: done with {part}" for part in ("changes", "later", "links")),
}
SELDOM = {
    *(
        f"undo: {part}"
        for part in (
            "done with later",
            "done with erased",
            "done with links that come back",
            "refused with protected",
            "refused with erased",
        )
    ),
    *(f"restore: done with {part}" for part in ("erased", "links that come back")),
    *(f"restore: refused with {part}" for part in ("erased", "protected")),
}


def many(machines: int, steps: int = 50) -> settings:
    """What fails is told as it is: making it smaller takes minutes."""
    return settings(
        max_examples=machines,
        stateful_step_count=steps,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )


@pytest.mark.parametrize(
    ("machines", "steps", "expected"),
    [
        (2, 25, set()),
        (40, 50, OFTEN),
        pytest.param(300, 30, OFTEN | SELDOM, marks=pytest.mark.slow),
    ],
)
def test_the_time_machine_does_what_its_model_says(
    clean_db: Clone, superuser: psycopg.Connection, machines: int, steps: int, expected: set[str]
) -> None:
    met = run_machines(clean_db, superuser, many(machines, steps))
    assert met.keys() >= expected


@pytest.mark.parametrize("step", [1, 2])
def test_rollbacks_in_steps_do_what_the_model_says_of_them_as_one(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(rollback, "MAX_STEP_CHANGES", step)
    met = run_machines(clean_db, superuser, many(20))
    assert met.keys() >= {f"{name}: done with {part}" for name in ("undo", "restore") for part in ("changes", "links")}


#: What is wrong: the function, its text, what stands there instead, and the promise that the machine finds broken.
MUTANTS: Mapping[str, tuple[str, str, str, str]] = {
    "later changes are no conflict": (
        "operations_after",
        "exit when cardinality(later) = 0;",
        "exit;",
        r"dry run of [\w ]+: .*later=\(\)",
    ),
    "what was stored later survives a restore": (
        "plan_rollback",
        "left join lateral",
        "join lateral",
        r"dry run of [\w ]+: ",
    ),
    "a past state lacks its last change": (
        "metadata_as_of",
        "h.revision <= p_revision",
        "h.revision < p_revision",
        "past states: ",
    ),
    "a living twin is no conflict": (
        "plan_rollback",
        "where f.key_after is not null",
        "where false",
        r"dry run of [\w ]+: ",
    ),
    "a rollback does not say what was erased": (
        "plan_rollback",
        "where t.is_erased or (m.state = 'purged' and t.was is not null)",
        "where false",
        r"dry run of [\w ]+: .*erased=\(\)",
    ),
    "what was said stays searched": (
        "roll_back",
        "set searchable = s.is_shown",
        "set searchable = true",
        "searched messages: ",
    ),
    "relations do not come back": ("roll_back", "l.before is not null", "false", "what changed: "),
    "what comes back is searched by other words": (
        "keep_entries",
        "new.content <> old.content and new.state <> 'purged'",
        "false",
        "searched memories: ",
    ),
    "another operation passes for a refinement's": (
        "open_operation",
        "operation = excluded.operation",
        "operation = h.operation || excluded.operation",
        "(the refinement of what changed: |erased)",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_statement_is_found_out(fresh_db: Clone, name: str) -> None:
    function, text, wrong, broken = MUTANTS[name]
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, function, text, wrong)
        with pytest.raises(AssertionError, match=re.compile(f"^{broken}", re.DOTALL)):
            run_machines(fresh_db, superuser, many(100))


@pytest.mark.parametrize(
    ("name", "text", "wrong", "broken"),
    [("as_of", "h.revision <=", "h.revision <", "past contents: "), ("revision_at", "h.ts <=", "h.ts <", "moment: ")],
)
def test_a_look_at_the_past_that_stops_too_early_is_found_out(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, name: str, text: str, wrong: str, broken: str
) -> None:
    worsen(monkeypatch, history, **{name: (text, wrong)})
    with fresh_db.as_superuser() as superuser, pytest.raises(AssertionError, match=f"^{broken}"):
        run_machines(fresh_db, superuser, many(100))
