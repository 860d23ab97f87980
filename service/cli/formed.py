"""What became of sessions that were formed: counted, in words, and whether that is as it should be."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from mnemic.operations.formation.drafts import refusal_summary
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError
from mnemic.state.graphs import ConsolidationResult, FormationOutput
from mnemic.state.identity import Identity


@dataclass
class Counts:
    """What formation runs stored and refused."""

    #: Memories by kind.
    stored: Counter[str] = field(default_factory=Counter)
    #: Drafts that were refused, by what was wrong with them.
    refused: Counter[str] = field(default_factory=Counter)
    #: Facts that were closed.
    superseded: int = 0
    #: Facts that were known before.
    repeated: int = 0
    #: Messages that neither a memory nor the model's word accounts for.
    unaccounted: int = 0

    def add(self, runs: Iterable[FormationOutput]) -> None:
        """Adds what these runs did."""
        for run in runs:
            self.stored.update(run.get("stored", {}))
            self.refused.update(run.get("refused", {}))
            self.superseded += run.get("superseded", 0)
            self.repeated += run.get("repeated", 0)
            self.unaccounted += run.get("unaccounted", 0)

    def losses(self) -> list[str]:
        """What was refused and why, and what nothing accounts for, a line each."""
        lines = [f"drafts refused: {self.refused.total()} ({refusal_summary(self.refused)})"] if self.refused else []
        if self.unaccounted:
            lines.append(f"messages that no memory accounts for: {self.unaccounted}; they keep their words")
        return lines


@dataclass(frozen=True)
class FormedSession:
    """The runs of one session."""

    runs: list[FormationOutput] = field(default_factory=list)
    #: Why no usable answer could be had, if none could.
    problem: str | None = None

    @property
    def counts(self) -> Counts:
        """Of all its runs."""
        counts = Counts()
        counts.add(self.runs)
        return counts

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
        return [*lines, *(_ended(result) for result in self.consolidations if result["outcome"] != "saved")]

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
        counts = self.counts
        return bool(counts.unaccounted and not counts.stored and not counts.repeated)


async def form_session(memory: Mnemic, who: Identity) -> FormedSession:
    """Forms what the session has pending; answers that cannot be used keep no other session waiting."""
    try:
        return FormedSession(await memory.form(who))
    except ModelOutputError as error:
        return FormedSession(problem=str(error))


def _ended(result: ConsolidationResult) -> str:
    why = f" ({result['problem']})" if result.get("problem") else ""
    return f"the consolidation of {result['scope_key']} ended as: {result['outcome']}{why}"
