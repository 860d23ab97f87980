"""Tries mutants on a checkout, one by one and together, and keeps in the list what became of each."""

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants.mutant import (
    Edit,
    Mutant,
    NotFoundError,
    apply,
    find,
    functions,
    load_mutants,
    restore,
    save_mutants,
)
from benchmarks.mutants.suite import Ended, run_tests

#: Seconds for some tests, three times what the longest takes; and for the whole suite.
_SOME, _WHOLE = 300.0, 10_800.0
_COLLECT = "--collect-only"


class Bench:
    """A checkout and the list; `field` is where the results go."""

    def __init__(self, tree: Path, field: str) -> None:
        self._tree, self._field = tree, field
        self._mutants = load_mutants()
        self._edits: dict[str, list[Edit]] = {}
        for mutant in self._mutants:
            try:
                self._edits[mutant.id] = edits = find(tree, mutant)
                function = functions(tree / edits[0].path)[edits[0].first]
                if function.rpartition(".")[2] != mutant.function.rpartition(".")[2]:
                    print(f"{mutant.id}, see whether it is the same: {edits[0].path} {function}")
            except NotFoundError as error:
                self._note(mutant, str(error))

    def known(self) -> None:
        """Try each mutant that has no result yet with the tests of the name that killed it before."""
        for mutant in self._mutants:
            if mutant.id in self._edits and not getattr(mutant, self._field):
                for test in self._tests_of(mutant):
                    if self._is_killer([mutant], test):
                        self._note(mutant, f"killed by {test}")
                        break

    def whole(self, workers: int) -> None:
        """Apply all other mutants together, and take out the causes of failing tests, until none fails."""
        left, late = self._apart([m for m in self._mutants if m.id in self._edits and not getattr(m, self._field)])
        unclear: set[str] = set()
        ended = self._pytest(left, ["-n", str(workers)], _WHOLE)
        while tests := [test for test in ended.failed or [_COLLECT] * bool(ended.broken) if test not in unclear]:
            mutant = self._halve(left, tests[0])
            if mutant:
                self._note(mutant, f"killed by {tests[0]}")
                left.remove(mutant)
            else:
                unclear.add(tests[0])
                print(f"fails by chance, or with several mutants only: {tests[0]}")
            ended = self._pytest(left, tests if ended.failed else ["-n", str(workers)], _WHOLE)
        if ended.broken:
            raise RuntimeError(f"with all mutants together: {ended.broken}")
        for mutant in left:
            self._note(mutant, "survived")
        if late:
            self.whole(workers)

    def _halve(self, mutants: list[Mutant], test: str) -> Mutant | None:
        """Return the mutant that makes the test fail by itself."""
        while len(mutants) > 1:
            half = mutants[: len(mutants) // 2]
            mutants = half if self._fails(half, test) else mutants[len(half) :]
        return mutants[0] if self._is_killer(mutants, test) else None

    def _is_killer(self, mutants: list[Mutant], test: str) -> bool:
        """Whether the test fails with the mutant twice, and without it never."""
        return all(self._fails(mutants, test) for _ in range(2)) and not any(self._fails([], test) for _ in range(2))

    def _fails(self, mutants: Sequence[Mutant], test: str) -> bool:
        ended = self._pytest(mutants, [test], _SOME)
        return bool(ended.failed or ended.broken)

    def _pytest(self, mutants: Sequence[Mutant], arguments: Sequence[str], timeout: float) -> Ended:
        originals = apply(self._tree, [edit for mutant in mutants for edit in self._edits[mutant.id]])
        try:
            return run_tests(self._tree, arguments, timeout)
        finally:
            restore(self._tree, originals)

    def _tests_of(self, mutant: Mutant) -> list[str]:
        """Run the tests of that name in any file; if there is none, check that all can be collected."""
        name = re.search(r"::(\w+)", mutant.before)
        if not name:
            return [_COLLECT] if mutant.before.startswith("killed") else []
        files = sorted((self._tree / "tests").rglob("test_*.py"))
        return [f"{f.relative_to(self._tree)}::{name[1]}" for f in files if f"def {name[1]}(" in f.read_text()]

    def _apart(self, mutants: Sequence[Mutant]) -> tuple[list[Mutant], list[Mutant]]:
        """Return the first of each that change the same lines, and those that wait for another run."""
        taken: set[tuple[str, int]] = set()
        first: list[Mutant] = []
        late: list[Mutant] = []
        for mutant in mutants:
            lines = {line for edit in self._edits[mutant.id] for line in edit.lines}
            (late if lines & taken else first).append(mutant)
            taken |= lines
        return first, late

    def _note(self, mutant: Mutant, result: str) -> None:
        setattr(mutant, self._field, result)
        save_mutants(self._mutants)
        print(f"{mutant.id} {mutant.path} {mutant.function}: {result}", flush=True)
