"""`mnemic form`: conversations from files become memories; and what became of each session, counted and in words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from mnemic.prompts.repair import refusal_summary
from mnemic.service.cli.message_files import ARRAY_SUFFIX, Malformed, read_messages
from mnemic.service.cli.options import Agent, AsJson, Groups, User, identity, open_memory
from mnemic.service.cli.terminal import exit_if_wrong, progress, report, say
from mnemic.service.cli.usage import spent_by, spent_line
from mnemic.service.cli.waiting import waiting_shown
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, ModelOutputError
from mnemic.state.identity import Identity
from mnemic.state.results import FormationResult

#: Messages, and characters of them, that are held before they are stored, so that a file may be longer than the memory.
#: Where a thousand sessions alternate, a transaction still stores twenty messages. They take about 20 MB.
HELD_MESSAGES = 20_000
_HELD_CHARS = 8 << 20
#: Malformed lines that are named, and kept for --json; of more there is only the number.
_NAMED = 20
_KEPT = 1000

Files = Annotated[
    list[Path],
    typer.Argument(
        exists=True,
        dir_okay=False,
        help=f"JSON lines, or {ARRAY_SUFFIX} files that hold one array of OpenAI-style messages each.",
    ),
]


def losses(runs: Sequence[FormationResult]) -> list[str]:
    """What was refused and why, and what nothing accounts for, a line each."""
    refused = sum((Counter(run.refused) for run in runs), Counter[str]())
    uncovered_messages = sum(run.uncovered_messages for run in runs)
    lines = [f"drafts refused: {refused.total()} ({refusal_summary(refused)})"] if refused else []
    if uncovered_messages:
        lines.append(f"messages that no memory accounts for: {uncovered_messages}; they keep their words")
    return lines


@dataclass(frozen=True)
class FormedSession:
    """What became of one session; `--json` prints these fields."""

    session: str
    #: New messages.
    accepted: int
    #: Why no usable answer could be had, if none could.
    problem: str | None = None
    runs: list[FormationResult] = field(default_factory=list)

    def complaints(self) -> list[str]:
        """Why something waits, or nothing came of something, a line each."""
        lines = [self.problem] if self.problem else []
        last = self.runs[-1] if self.runs else None
        if last and last.waits:
            lines.append(f"{last.pending} messages wait ({last.waits}); the same command forms them")
        elif last and last.quarantined:
            lines.append(f"no usable answer to {last.quarantined} messages; they stay pending")
        # nothing was stored or known, and nobody said that there is nothing
        nothing_came = not any(run.stored or run.repeated for run in self.runs)
        if nothing_came and any(run.uncovered_messages for run in self.runs):
            lines.append(f"nothing came of {sum(run.formed for run in self.runs)} messages")
        for result in (result for run in self.runs for result in run.consolidations):
            if result.outcome in ("refused", "failed"):
                why = f" ({result.problem})" if result.problem else ""
                lines.append(f"the consolidation of {result.scope_key} ended as: {result.outcome}{why}")
        return lines


async def form_session(memory: Mnemic, who: Identity, session: str, accepted: int) -> FormedSession:
    """Forms what the session has pending; answers that cannot be used keep no other session waiting."""
    try:
        runs = await memory.form(who.model_copy(update={"session_id": session}))
    except ModelOutputError as error:
        return FormedSession(session, accepted, problem=str(error))
    return FormedSession(session, accepted, runs=runs)


async def form(files: Files, agent: Agent, user: User, group: Groups = None, as_json: AsJson = False) -> None:
    """Form memories from conversation files.

    Messages that are known already are not formed again. Malformed lines are named and left out, and so are sessions
    that no usable answer could be had for or that another run has; the exit code is 1 then, and where nothing came of a
    session that nobody said to hold nothing.
    """
    # an array's session is named after its file, so that two of one name would become one conversation
    stems = Counter(path.stem for path in set(files) if path.suffix == ARRAY_SUFFIX)
    if twins := sorted(stem for stem, count in stems.items() if count > 1):
        raise InvalidInputError(f"several files would be the session {', '.join(twins)}: rename them")
    who = identity(agent, user, group)
    sessions = list[FormedSession]()
    async with open_memory() as memory:
        say(memory.admin.describe())
        intake = await _take_in(memory, who, files)
        async with waiting_shown(memory, say):
            with progress() as bar:
                for session, accepted in bar.track(intake.accepted.items(), description="sessions formed"):
                    sessions.append(await form_session(memory, who, session, accepted))
                    for line in sessions[-1].complaints():
                        say(f"session {session}: {line}")
    found = {"read": intake.read, "malformed_lines": intake.malformed, "malformed": intake.named, "sessions": sessions}
    new = intake.accepted
    lines = [f"{intake.read} messages read, {new.total()} of them new, in {len(new)} sessions"]
    lines += [f"{intake.malformed} malformed lines were left out"] if intake.malformed else []
    report(found, [*lines, *summary(sessions)], as_json=as_json)
    exit_if_wrong(intake.malformed or any(session.complaints() for session in sessions))


@dataclass
class _Intake:
    """What the files brought."""

    read: int = 0
    malformed: int = 0
    #: The first of them.
    named: list[Malformed] = field(default_factory=list)
    #: New messages of each session.
    accepted: Counter[str] = field(default_factory=Counter)


async def _take_in(memory: Mnemic, who: Identity, files: Sequence[Path]) -> _Intake:
    """Stores the messages of the files, in parts, each in its session; none is formed yet."""
    intake = _Intake()
    held: dict[str, list[dict[str, Any]]] = {}
    size = 0
    with progress() as bar:
        for line in bar.track(read_messages(files, who.user_id), description="lines read"):
            if isinstance(line, Malformed):
                intake.malformed += 1
                intake.named += [line] if intake.malformed <= _KEPT else []
                if intake.malformed <= _NAMED:
                    say(str(line))
                continue
            intake.read += 1
            held.setdefault(line.session, []).append(line.fields())
            size += len(line.text)
            if intake.read % HELD_MESSAGES == 0 or size > _HELD_CHARS:
                await _store(memory, who, held, intake)
                size = 0
        await _store(memory, who, held, intake)
    return intake


async def _store(memory: Mnemic, who: Identity, held: dict[str, list[dict[str, Any]]], intake: _Intake) -> None:
    for session, messages in held.items():
        in_session = who.model_copy(update={"session_id": session})
        observed = await memory.observe(in_session, messages, several_speakers=True)  # the operator's own files
        intake.accepted[session] += observed.accepted
    held.clear()


def summary(sessions: Iterable[FormedSession]) -> Iterator[str]:
    """What was stored and what was lost, counted over sessions."""
    runs = [run for session in sessions for run in session.runs]
    stored = sum((Counter(run.stored) for run in runs), Counter[str]())
    yield f"stored: {', '.join(f'{count} {kind}s' for kind, count in sorted(stored.items())) or 'nothing new'}"
    superseded, repeated = sum(run.superseded for run in runs), sum(run.repeated for run in runs)
    yield f"facts superseded: {superseded}, known before: {repeated}"
    yield from losses(runs)
    yield from spent_line(spent_by(runs))
