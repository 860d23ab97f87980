"""What became of a session that was formed: in words, and whether that is as it should be."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mnemic.operations.formation.drafts import told
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError
from mnemic.state.graphs import ConsolidationResult, FormationOutput
from mnemic.state.identity import Identity


@dataclass(frozen=True)
class Formed:
    """The runs of one session."""

    runs: list[FormationOutput] = field(default_factory=list)
    #: Why no usable answer could be had, if none could.
    problem: str | None = None

    @property
    def stored(self) -> Counter[str]:
        """Memories by kind."""
        return _sum(run.get("stored", {}) for run in self.runs)

    @property
    def refused(self) -> Counter[str]:
        """Drafts that were refused, by what was wrong with them."""
        return _sum(run.get("refused", {}) for run in self.runs)

    @property
    def superseded(self) -> int:
        """Facts that were closed."""
        return sum(run.get("superseded", 0) for run in self.runs)

    @property
    def repeated(self) -> int:
        """Facts that were known before."""
        return sum(run.get("repeated", 0) for run in self.runs)

    @property
    def unaccounted(self) -> int:
        """Messages that neither a memory nor the model's word accounts for."""
        return sum(run.get("unaccounted", 0) for run in self.runs)

    @property
    def consolidations(self) -> list[ConsolidationResult]:
        """What became of scope keys that were due."""
        return [result for run in self.runs for result in run.get("consolidations", [])]

    @property
    def is_wrong(self) -> bool:
        """Whether something waits, or nothing came of something."""
        refused = any(result["outcome"] in ("refused", "failed") for result in self.consolidations)
        return bool(self.problem or self._waiting or self._is_fruitless or refused)

    def complaints(self) -> list[str]:
        """What is not as it should be, a line each."""
        lines = [self.problem] if self.problem else []
        if self._waiting:
            lines.append(self._waiting)
        if self._is_fruitless:
            lines.append(f"nothing came of {sum(run.get('formed', 0) for run in self.runs)} messages")
        return [*lines, *map(_ended, (one for one in self.consolidations if one["outcome"] != "saved"))]

    @property
    def _waiting(self) -> str | None:
        last: FormationOutput = self.runs[-1] if self.runs else {}
        if waits := last.get("waits"):
            return f"{last['pending']} messages wait ({waits}); the same command forms them"
        if last.get("set_aside"):
            return f"no usable answer to {last['set_aside']} messages; they stay pending"
        return f"{last['pending']} messages wait" if last.get("pending") else None

    @property
    def _is_fruitless(self) -> bool:
        """Messages were formed, nothing was stored or known, and nobody said that there is nothing."""
        return bool(self.unaccounted and not self.stored and not self.repeated)


async def form_session(memory: Mnemic, who: Identity) -> Formed:
    """Forms what the session has pending; answers that cannot be used keep no other session waiting."""
    try:
        return Formed(await memory.form(who))
    except ModelOutputError as error:
        return Formed(problem=str(error))


def losses(refused: Counter[str], unaccounted: int) -> list[str]:
    """What was refused and why, and what nothing accounts for, a line each."""
    lines = [f"drafts refused: {refused.total()} ({told(refused)})"] if refused else []
    if unaccounted:
        lines.append(f"messages that no memory accounts for: {unaccounted}; they keep their words")
    return lines


def _ended(result: ConsolidationResult) -> str:
    why = f" ({result['problem']})" if result.get("problem") else ""
    return f"the consolidation of {result['scope_key']} ended as: {result['outcome']}{why}"


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
