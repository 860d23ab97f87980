"""`mnemic form`: conversations from files become memories."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from mnemic.service.cli.options import Agent, AsJson, Groups, User, identity
from mnemic.service.cli.outcome import Formed, form_session, losses
from mnemic.service.cli.reading import ARRAY_SUFFIX, Malformed, Reader
from mnemic.service.cli.terminal import EXIT_FOUND_WRONG, emit, progress, say, show
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity

#: Messages, and characters of them, that are held before they are stored, so that a file may be longer than the memory.
#: Where a thousand sessions alternate, a transaction still stores twenty messages. They take about 20 MB.
_HELD = 20_000
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
class _Taken:
    """What the files brought."""

    read: int = 0
    malformed: int = 0
    #: The first of them.
    named: list[Malformed] = field(default_factory=list)
    #: New messages of each session.
    accepted: Counter[str] = field(default_factory=Counter)


@dataclass
class _Total:
    """What became of the messages."""

    stored: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    superseded: int = 0
    repeated: int = 0
    unaccounted: int = 0
    #: Sessions of which something waits, or nothing came.
    wrong: int = 0
    #: Each session with its runs, for --json only.
    sessions: list[dict[str, object]] = field(default_factory=list)

    def add(self, formed: Formed) -> None:
        """Adds a session."""
        self.stored.update(formed.stored)
        self.refused.update(formed.refused)
        self.superseded += formed.superseded
        self.repeated += formed.repeated
        self.unaccounted += formed.unaccounted
        self.wrong += formed.is_wrong


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
        taken = await take_in(memory, who, files)
        formed = await _form_sessions(memory, who, taken, as_json=as_json)
    if as_json:
        counts = {"read": taken.read, "malformed_lines": taken.malformed}
        emit({**counts, "malformed": taken.named, "sessions": formed.sessions})
    else:
        _report(taken, formed)
    if taken.malformed or formed.wrong:
        raise typer.Exit(EXIT_FOUND_WRONG)


def _refuse_twins(files: Sequence[Path]) -> None:
    """An array's session is named after its file, so that two of one name would become one conversation."""
    stems = Counter(path.stem for path in set(files) if path.suffix == ARRAY_SUFFIX)
    if twins := sorted(stem for stem, count in stems.items() if count > 1):
        raise InvalidInputError(f"several files would be the session {', '.join(twins)}: rename them")


async def take_in(memory: Mnemic, who: Identity, files: Sequence[Path]) -> _Taken:
    """Stores the messages of the files for formation, a few thousand at a time, and names the malformed lines."""
    taken = _Taken()
    held: dict[str, list[dict[str, Any]]] = {}
    size = 0
    with closing(Reader(speaker=who.user_id)) as reader, progress() as bar:
        task = bar.add_task("messages read", total=None)
        for line in (line for path in files for line in reader.read(path)):
            if isinstance(line, Malformed):
                _name(taken, line)
                continue
            taken.read += 1
            bar.advance(task)
            held.setdefault(line.session, []).append(line.message)
            size += line.size
            if taken.read % _HELD == 0 or size > _HELD_CHARS:
                await _store(memory, who, held, taken)
                size = 0
        await _store(memory, who, held, taken)
    return taken


def _name(taken: _Taken, line: Malformed) -> None:
    taken.malformed += 1
    if taken.malformed <= _KEPT:
        taken.named.append(line)
    if taken.malformed <= _NAMED:
        say(f"{line.file}:{line.line}: {line.reason}")


async def _store(memory: Mnemic, who: Identity, held: dict[str, list[dict[str, Any]]], taken: _Taken) -> None:
    for session, messages in held.items():
        observed = await memory.observe(_in(who, session), messages, several_speakers=True)  # the operator's own files
        taken.accepted[session] += observed.accepted
    held.clear()


async def _form_sessions(memory: Mnemic, who: Identity, taken: _Taken, *, as_json: bool) -> _Total:
    total = _Total()
    with progress() as bar:
        for session, accepted in bar.track(taken.accepted.items(), description="sessions formed"):
            formed = await form_session(memory, _in(who, session))
            for line in formed.complaints():
                say(f"session {session}: {line}")
            total.add(formed)
            if as_json:
                told = {"session": session, "accepted": accepted, "problem": formed.problem, "runs": formed.runs}
                total.sessions.append(told)
    return total


def _in(who: Identity, session: str) -> Identity:
    return who.model_copy(update={"session_id": session})


def _report(taken: _Taken, formed: _Total) -> None:
    new = sum(taken.accepted.values())
    show(f"{taken.read} messages read, {new} of them new, in {len(taken.accepted)} sessions")
    if taken.malformed:
        show(f"{taken.malformed} malformed lines were left out")
    stored = ", ".join(f"{count} {kind}s" for kind, count in sorted(formed.stored.items()))
    show(f"stored: {stored or 'nothing new'}")
    show(f"facts superseded: {formed.superseded}, known before: {formed.repeated}")
    show(*losses(formed.refused, formed.unaccounted))
