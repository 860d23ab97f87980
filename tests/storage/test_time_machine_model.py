"""All operations on memories, the Time Machine among them, in any order: what a model in plain Python says, happens."""

import psycopg
import pytest
from hypothesis import Phase, settings

from mnemic.operations.governance import rollback
from tests.support.machine import run_machines
from tests.support.server import Clone

#: What the rollbacks of few machines have to have met, and those of many, or the comparison would say little.
OFTEN = {
    *(f"undo: done with {part}" for part in ("changes", "links")),
    *(f"undo: refused with {part}" for part in ("later", "twins")),
    *(f"restore: done with {part}" for part in ("changes", "links")),
    "undo: unknown",
    *("DEDUP", "MERGE", "UPDATE", "DELETE", "PROTECT", "merge: refused"),
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("machines", "steps", "expected"),
    [
        (2, 25, set()),
        pytest.param(40, 50, OFTEN, marks=pytest.mark.thorough),
        pytest.param(300, 30, OFTEN | SELDOM, marks=pytest.mark.slow),
    ],
)
def test_the_time_machine_does_what_its_model_says(
    clean_db: Clone, superuser: psycopg.Connection, machines: int, steps: int, expected: set[str]
) -> None:
    # what fails is told as it is: making it smaller takes minutes
    met = run_machines(
        clean_db,
        superuser,
        settings(max_examples=machines, stateful_step_count=steps, derandomize=True, phases=[Phase.generate]),
    )
    assert met.keys() >= expected


@pytest.mark.thorough
@pytest.mark.parametrize("step", [1, 2])
def test_rollbacks_in_steps_do_what_the_model_says_of_them_as_one(
    clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(rollback, "STEP", step)
    met = run_machines(
        clean_db,
        superuser,
        settings(max_examples=20, stateful_step_count=50, derandomize=True, phases=[Phase.generate]),
    )
    assert met.keys() >= {f"{name}: done with {part}" for name in ("undo", "restore") for part in ("changes", "links")}
