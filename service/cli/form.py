"""`mnemic form`: conversations from files become memories."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from mnemic.service.cli.formed import Counts, form_session
from mnemic.service.cli.message_files import ARRAY_SUFFIX, Malformed, Reader
from mnemic.service.cli.options import Agent, AsJson, Groups, User, identity
from mnemic.service.cli.terminal import emit, exit_if_wrong, progress, say, show
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity

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


@dataclass
class _Intake:
    """What the files brought."""

    read: int = 0
    malformed: int = 0
    #: The first of them.
    named: list[Malformed] = field(default_factory=list)
    #: New messages of each session.
    accepted: Counter[str] = field(default_factory=Counter)


async def form(files: Files, agent: Agent, user: User, group: Groups = None, as_json: AsJson = False) -> None:
    """Form memories from conversation files.

    Messages that are known already are not formed again. Malformed lines are named and left out, and so are sessions
    that no usable answer could be had for or that another run has; the exit code is 1 then, and where nothing came of a
    session that nobody said to hold nothing.
    """
    _refuse_twins(files)
    who = identity(agent, user, group)
    async with Mnemic.open() as memory:
        say(memory.describe())
        intake = await take_in(memory, who, files)
        formed = await _form_sessions(memory, who, intake, keep_runs=as_json)
    if as_json:
        counts = {"read": intake.read, "malformed_lines": intake.malformed}
        emit({**counts, "malformed": intake.named, "sessions": formed.sessions})
    else:
        _show(intake, formed.counts)
    exit_if_wrong(intake.malformed or formed.wrong)


def _refuse_twins(files: Sequence[Path]) -> None:
    """An array's session is named after its file, so that two of one name would become one conversation."""
    stems = Counter(path.stem for path in set(files) if path.suffix == ARRAY_SUFFIX)
    if twins := sorted(stem for stem, count in stems.items() if count > 1):
        raise InvalidInputError(f"several files would be the session {', '.join(twins)}: rename them")


async def take_in(memory: Mnemic, who: Identity, files: Sequence[Path]) -> _Intake:
    """Stores the messages of the files for formation, a few thousand at a time, and names the malformed lines."""
    intake = _Intake()
    held: dict[str, list[dict[str, Any]]] = {}
    size = 0
    with closing(Reader(speaker=who.user_id)) as reader, progress() as bar:
        task = bar.add_task("messages read", total=None)
        for line in (line for path in files for line in reader.read(path)):
            if isinstance(line, Malformed):
                _name(intake, line)
                continue
            intake.read += 1
            bar.advance(task)
            held.setdefault(line.session, []).append(line.message)
            size += line.size
            if intake.read % HELD_MESSAGES == 0 or size > _HELD_CHARS:
                await _store(memory, who, held, intake)
                size = 0
        await _store(memory, who, held, intake)
    return intake


def _name(intake: _Intake, line: Malformed) -> None:
    intake.malformed += 1
    if intake.malformed <= _KEPT:
        intake.named.append(line)
    if intake.malformed <= _NAMED:
        say(f"{line.file}:{line.line}: {line.reason}")


async def _store(memory: Mnemic, who: Identity, held: dict[str, list[dict[str, Any]]], intake: _Intake) -> None:
    for session, messages in held.items():
        observed = await memory.observe(_in(who, session), messages, several_speakers=True)  # the operator's own files
        intake.accepted[session] += observed.accepted
    held.clear()


@dataclass
class _Outcome:
    """What became of the messages."""

    counts: Counts = field(default_factory=Counts)
    #: Sessions of which something waits, or nothing came.
    wrong: int = 0
    #: Each session with its runs, for --json only.
    sessions: list[dict[str, object]] = field(default_factory=list)


async def _form_sessions(memory: Mnemic, who: Identity, intake: _Intake, *, keep_runs: bool) -> _Outcome:
    outcome = _Outcome()
    with progress() as bar:
        for session, accepted in bar.track(intake.accepted.items(), description="sessions formed"):
            formed = await form_session(memory, _in(who, session))
            for line in formed.complaints():
                say(f"session {session}: {line}")
            outcome.counts.add(formed.runs)
            outcome.wrong += formed.is_wrong
            if keep_runs:
                row = {"session": session, "accepted": accepted, "problem": formed.problem, "runs": formed.runs}
                outcome.sessions.append(row)
    return outcome


def _in(who: Identity, session: str) -> Identity:
    return who.model_copy(update={"session_id": session})


def _show(intake: _Intake, counts: Counts) -> None:
    new = sum(intake.accepted.values())
    show(f"{intake.read} messages read, {new} of them new, in {len(intake.accepted)} sessions")
    if intake.malformed:
        show(f"{intake.malformed} malformed lines were left out")
    stored = ", ".join(f"{count} {kind}s" for kind, count in sorted(counts.stored.items()))
    show(f"stored: {stored or 'nothing new'}")
    show(f"facts superseded: {counts.superseded}, known before: {counts.repeated}")
    show(*counts.losses())
