"""Tries mutants on a checkout, one by one and together, and keeps what became of each in the list."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.mutants.mutant import Edit, Mutant, NotFoundError, apply, find, load_mutants, restore, save_mutants
from benchmarks.mutants.reach import reach
from benchmarks.mutants.suite import Run, run_tests

_STARTING = 60.0
_WHOLE = 7200.0


class Bench:
    """A checkout, the list, and what `reach` found in the checkout."""

    def __init__(self, tree: Path, field: str, work: Path) -> None:
        self._tree, self._field, self._work = tree, field, work
        self._mutants = load_mutants()
        self._edits: dict[str, list[Edit]] = {}
        for mutant in self._mutants:
            try:
                self._edits[mutant.id] = find(tree, mutant)
            except NotFoundError as error:
                self._note(mutant, str(error))
        found = json.loads(work.read_text()) if work.exists() else {}
        self._reached: dict[str, list[str]] = found.get("tests", {})
        self._seconds: dict[str, float] = found.get("seconds", {})
        self._unreliable = set(found.get("failed", []))

    def reach(self, workers: int) -> None:
        """Learns which tests execute which mutant."""
        edits = [edit for found in self._edits.values() for edit in found]
        tests, run = reach(self._tree, edits, workers, self._work.with_suffix(".notes"))
        self._work.write_text(json.dumps({"tests": tests, "seconds": run.seconds, "failed": run.failed}))
        print(f"{len(run.seconds)} tests, {run.broken or 'ended'}; failed with marks in the code: {run.failed}")  # noqa: T201

    def run(self, seconds: float) -> None:
        """Tries each mutant that has no result yet by itself."""
        for mutant in self._mutants:
            if mutant.id in self._edits and not getattr(mutant, self._field):
                tests = self._quickest(mutant, seconds)
                run = self._mutated([mutant], tests)
                self._note(mutant, _killed(run) or f"survived {len(tests)} tests")
        killers = {self._killer(mutant) for mutant in self._mutants} - {""}
        for test in self._failing_anyway(killers):
            print(f"fails without mutants too: {test}")  # noqa: T201
            self._unreliable.add(test)
            for mutant in self._mutants:
                if self._killer(mutant) == test:
                    self._note(mutant, "")

    def whole(self, workers: int) -> None:
        """Runs the whole suite with all survivors, until it passes with those that are left."""
        left = [mutant for mutant in self._mutants if getattr(mutant, self._field).startswith("survived")]
        while left:
            run = self._mutated(self._apart(left), None, workers)
            if run.broken:
                raise RuntimeError(f"with all survivors together: {run.broken}")
            failed = [test for test in run.failed if test not in self._unreliable]
            print(f"{len(left)} mutants, {len(run.seconds)} tests, failed: {failed}")  # noqa: T201
            real = [test for test in failed if test not in self._failing_anyway(failed)]
            killed = [mutant for mutant in left if real and self._is_killed_by(mutant, real)]
            if not killed:
                for mutant in self._apart(left):
                    self._note(mutant, "survived the suite" + (" (but fails with others)" if real else ""))
                return
            left = [mutant for mutant in left if mutant not in killed]

    def _quickest(self, mutant: Mutant, seconds: float) -> list[str]:
        """Tests that execute the mutant, the quickest first, by files; of an SQL object those that may."""
        rank = dict.fromkeys(self._reached.get(mutant.id, []), 0) or self._by_name(mutant)
        chosen: dict[str, list[str]] = defaultdict(list)
        spent = 0.0
        for test in sorted(rank, key=lambda test: (rank[test], self._seconds.get(test, 0))):
            if spent < seconds and test in self._seconds and test not in self._unreliable:
                spent += self._seconds[test]
                chosen[test.partition("::")[0]].append(test)
        by_file = sorted(chosen.values(), key=lambda tests: sum(self._seconds[test] for test in tests))
        return [test for tests in by_file for test in tests]

    def _by_name(self, mutant: Mutant) -> dict[str, int]:
        name = mutant.function.rpartition(" ")[2].rpartition(".")[2] or Path(mutant.path).stem
        names = {test.partition("::")[0] for test in self._seconds}
        named = {file for file in names if name in (self._tree / file).read_text(encoding="utf-8")}
        ranks = {file: 0 if file in named else 1 if file.startswith("tests/storage") else 2 for file in names}
        return {test: ranks[test.partition("::")[0]] for test in self._seconds}

    def _mutated(self, mutants: Sequence[Mutant], tests: Sequence[str] | None, workers: int = 0) -> Run:
        originals = apply(self._tree, [edit for mutant in mutants for edit in self._edits[mutant.id]])
        try:
            timeout = _WHOLE if tests is None else _STARTING + 3 * sum(self._seconds.get(test, 1) for test in tests)
            return run_tests(self._tree, tests, timeout=timeout, stop=tests is not None, workers=workers)
        finally:
            restore(self._tree, originals)

    def _failing_anyway(self, tests: Iterable[str]) -> set[str]:
        """Those that fail in one of two runs without a mutant."""
        known = sorted(tests)
        runs = [run_tests(self._tree, known, timeout=_WHOLE, stop=False) for _ in range(2)] if known else []
        return {test for run in runs for test in run.failed}

    def _is_killed_by(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Whether one of the tests fails with the mutant alone, twice."""
        reached = self._reached.get(mutant.id)
        candidates = [test for test in tests if reached is None or test in reached]
        first = _killed(self._mutated([mutant], candidates)) if candidates else ""
        again = _killed(self._mutated([mutant], candidates)) if first else ""
        if again:
            self._note(mutant, again)
        return bool(again)

    def _apart(self, mutants: Sequence[Mutant]) -> list[Mutant]:
        """The first of each that change the same lines."""
        taken: set[tuple[str, int]] = set()
        chosen = []
        for mutant in mutants:
            lines = {line for edit in self._edits[mutant.id] for line in edit.lines}
            if not lines & taken:
                chosen.append(mutant)
                taken |= lines
        return chosen

    def _killer(self, mutant: Mutant) -> str:
        what, _, test = str(getattr(mutant, self._field)).partition(" by ")
        return test if what == "killed" else ""

    def _note(self, mutant: Mutant, result: str) -> None:
        setattr(mutant, self._field, result)
        save_mutants(self._mutants)
        print(f"{mutant.id} {mutant.path} {mutant.function}: {result}", flush=True)  # noqa: T201


def _killed(run: Run) -> str:
    if run.failed:
        return f"killed by {run.failed[0]}"
    return f"killed: {run.broken}" if run.broken else ""
