"""The command `form`: it forms memories from conversation files and prints the results of each session."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from mnemic.prompts.repair import refusal_summary
from mnemic.service.cli.message_files import ARRAY_SUFFIX, Malformed, read_messages
from mnemic.service.cli.options import Agent, AsJson, Groups, PersonOptions, User, open_memory
from mnemic.service.cli.terminal import exit_if_wrong, progress, report, say
from mnemic.service.cli.usage import spent_by, spent_line
from mnemic.service.cli.waiting import waiting_shown
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, ModelOutputError
from mnemic.state.identity import Identity
from mnemic.state.results import FormationResult

#: Messages, and their characters, that are held before they are stored, about 20 MB; files may be of any size. With a
#: thousand alternating sessions a transaction still stores twenty messages.
HELD_MESSAGES = 20_000
_HELD_CHARS = 8 << 20
#: Malformed lines that are printed, and kept for --json.
_NAMED = 20
_KEPT = 1000

Files = Annotated[
    list[Path],
    typer.Argument(
        exists=True,
        dir_okay=False,
        help=f"JSON lines, or {ARRAY_SUFFIX} files with one array of OpenAI-style messages.",
    ),
]


def losses(runs: Sequence[FormationResult]) -> list[str]:
    """Return a line for the refused drafts, and one for the uncovered messages."""
    refused = Counter[str]()
    uncovered_messages = 0
    for run in runs:
        refused.update(run.refused)
        uncovered_messages += run.uncovered_messages
    lines: list[str] = []
    if refused:
        lines.append(f"drafts refused: {refused.total()} ({refusal_summary(refused)})")
    if uncovered_messages:
        lines.append(f"uncovered messages: {uncovered_messages}; they keep their content")
    return lines


@dataclass(frozen=True)
class FormedSession:
    """Results of one session; `--json` prints these fields."""

    session: str
    #: Number of new messages.
    accepted: int
    #: Reason if a model gave no usable answer.
    problem: str | None = None
    runs: list[FormationResult] = field(default_factory=list)

    def complaints(self) -> list[str]:
        """Return a line for each problem of the session."""
        lines: list[str] = []
        if self.problem:
            lines.append(self.problem)
        last = self.runs[-1] if self.runs else None
        if last and last.waits:
            lines.append(f"{last.pending} messages wait ({last.waits}); the same command forms them")
        elif last and last.quarantined:
            lines.append(f"no usable answer to {last.quarantined} messages; they stay pending")
        has_memories = any(run.stored or run.repeated for run in self.runs)
        if not has_memories and any(run.uncovered_messages for run in self.runs):
            lines.append(f"no memory was formed of {sum(run.formed for run in self.runs)} messages")
        for run in self.runs:
            lines += _failed_consolidations(run)
        return lines


def _failed_consolidations(run: FormationResult) -> list[str]:
    lines: list[str] = []
    for result in run.consolidations:
        if result.outcome in ("refused", "failed"):
            reason = f" ({result.problem})" if result.problem else ""
            lines.append(f"the consolidation of {result.scope_key} ended as: {result.outcome}{reason}")
    return lines


async def form_session(memory: Mnemic, identity: Identity, session: str, accepted: int) -> FormedSession:
    """Form the pending messages of a session; unusable answers end this session only."""
    try:
        runs = await memory.form(identity.model_copy(update={"session_id": session}))
    except ModelOutputError as error:
        return FormedSession(session, accepted, problem=str(error))
    return FormedSession(session, accepted, runs=runs)


async def form(files: Files, agent: Agent, user: User, group: Groups = None, as_json: AsJson = False) -> None:
    """Form memories from conversation files.

    Stored messages are not formed again. Malformed lines are printed and skipped, and so are sessions that another run
    forms or for which a model gives no usable answer. The exit code is 1 then, and if no memory was formed of a session
    that the model did not judge to be empty.
    """
    _require_own_sessions(files)
    identity = PersonOptions(agent=agent, user=user, group=group).identity()
    sessions = list[FormedSession]()
    async with open_memory() as memory:
        say(memory.admin.describe())
        intake = await _take_in(memory, identity, files)
        async with waiting_shown(memory, say):
            with progress() as bar:
                for session, accepted in bar.track(intake.accepted.items(), description="sessions formed"):
                    sessions.append(await form_session(memory, identity, session, accepted))
                    for line in sessions[-1].complaints():
                        say(f"session {session}: {line}")
    document = {
        "read": intake.read,
        "malformed_lines": intake.malformed,
        "malformed": intake.named,
        "sessions": sessions,
    }
    lines = [f"{intake.read} messages read, {intake.accepted.total()} of them new, in {len(intake.accepted)} sessions"]
    if intake.malformed:
        lines.append(f"{intake.malformed} malformed lines were skipped")
    runs = runs_of(sessions)
    report(document, [*lines, *summary(runs), *spent_line(spent_by(runs))], as_json=as_json)
    exit_if_wrong(intake.malformed or any(session.complaints() for session in sessions))


def _require_own_sessions(files: Sequence[Path]) -> None:
    """Refuse array files of the same name: the name of an array file is the id of its session."""
    names: set[str] = set()
    repeated: set[str] = set()
    for path in set(files):
        if path.suffix != ARRAY_SUFFIX:
            continue
        if path.stem in names:
            repeated.add(path.stem)
        names.add(path.stem)
    if repeated:
        raise InvalidInputError(
            f"several files have the name of one session, {', '.join(sorted(repeated))}: rename all but one"
        )


@dataclass
class _Intake:
    """Counts of the read lines."""

    read: int = 0
    malformed: int = 0
    #: The first malformed lines.
    named: list[Malformed] = field(default_factory=list)
    #: Number of new messages by session.
    accepted: Counter[str] = field(default_factory=Counter)


async def _take_in(memory: Mnemic, identity: Identity, files: Sequence[Path]) -> _Intake:
    """Store the messages of the files in their sessions, in parts; none is formed yet."""
    intake = _Intake()
    held: dict[str, list[dict[str, Any]]] = {}
    size = 0
    with progress() as bar:
        for line in bar.track(read_messages(files, identity.user_id), description="lines read"):
            if isinstance(line, Malformed):
                intake.malformed += 1
                if intake.malformed <= _KEPT:
                    intake.named.append(line)
                if intake.malformed <= _NAMED:
                    say(str(line))
                continue
            intake.read += 1
            held.setdefault(line.session, []).append(line.fields())
            size += len(line.text)
            if intake.read % HELD_MESSAGES == 0 or size > _HELD_CHARS:
                await _store(memory, identity, held, intake)
                size = 0
        await _store(memory, identity, held, intake)
    return intake


async def _store(memory: Mnemic, identity: Identity, held: dict[str, list[dict[str, Any]]], intake: _Intake) -> None:
    for session, messages in held.items():
        in_session = identity.model_copy(update={"session_id": session})
        # the operator's own files may name several speakers
        observed = await memory.observe(in_session, messages, several_speakers=True)
        intake.accepted[session] += observed.accepted
    held.clear()


def runs_of(sessions: Iterable[FormedSession]) -> list[FormationResult]:
    """Return the runs of all sessions."""
    return list(chain.from_iterable(session.runs for session in sessions))


def summary(runs: Sequence[FormationResult]) -> Iterator[str]:
    """Yield the counts of stored, superseded, repeated and refused memories, over all runs."""
    stored = Counter[str]()
    superseded = repeated = 0
    for run in runs:
        stored.update(run.stored)
        superseded += run.superseded
        repeated += run.repeated
    counts = [f"{count} {kind}s" for kind, count in sorted(stored.items())]
    yield f"stored: {', '.join(counts) or 'nothing new'}"
    yield f"facts superseded: {superseded}, already known: {repeated}"
    yield from losses(runs)


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (form,)
