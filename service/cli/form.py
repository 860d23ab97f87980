"""`mnemic form`: conversations from files become memories."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from mnemic.service.cli.options import Agent, AsJson, Groups, User, identity
from mnemic.service.cli.output import emit, progress, say, show
from mnemic.service.cli.reading import ARRAY_SUFFIX, Line, Malformed, Reader
from mnemic.service.cli.running import EXIT_FOUND_WRONG
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import FormationOutput
from mnemic.state.identity import Identity

#: Messages that are held before they are stored, so that a file may be longer than the memory.
_HELD = 500
#: Malformed lines that are named; of more there is only the number.
_NAMED = 20

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
    malformed: list[Malformed] = field(default_factory=list)
    #: New messages of each session.
    accepted: Counter[str] = field(default_factory=Counter)


async def form(files: Files, agent: Agent, user: User, group: Groups = None, as_json: AsJson = False) -> None:
    """Form memories from conversation files.

    Messages that are known already are not formed again. Malformed lines are named and left out; the exit code is 1
    then.
    """
    _refuse_twins(files)
    who = identity(agent, user, group)
    async with Mnemic.open() as memory:
        say(memory.describe())
        taken = await _take_in(memory, who, files)
        runs = await _form_sessions(memory, who, list(taken.accepted))
    if as_json:
        emit(
            {
                "read": taken.read,
                "malformed": taken.malformed,
                "sessions": [{"session": s, "accepted": taken.accepted[s], "runs": runs[s]} for s in runs],
            }
        )
    else:
        _report(taken, [run for of_session in runs.values() for run in of_session])
    if taken.malformed:
        raise typer.Exit(EXIT_FOUND_WRONG)


def _refuse_twins(files: Sequence[Path]) -> None:
    """An array's session is named after its file, so that two of one name would become one conversation."""
    stems = Counter(path.stem for path in set(files) if path.suffix == ARRAY_SUFFIX)
    if twins := sorted(stem for stem, count in stems.items() if count > 1):
        raise InvalidInputError(f"several files would be the session {', '.join(twins)}: rename them")


async def _take_in(memory: Mnemic, who: Identity, files: Sequence[Path]) -> _Taken:
    taken, reader = _Taken(), Reader()
    held: dict[str, list[Line]] = {}
    with progress() as bar:
        task = bar.add_task("messages read", total=None)
        for path in files:
            for line in reader.read(path):
                if isinstance(line, Malformed):
                    _name(taken, line)
                    continue
                taken.read += 1
                bar.advance(task)
                held.setdefault(line.session, []).append(line)
                if taken.read % _HELD == 0:
                    await _store(memory, who, held, taken)
        await _store(memory, who, held, taken)
    return taken


def _name(taken: _Taken, line: Malformed) -> None:
    taken.malformed.append(line)
    if len(taken.malformed) <= _NAMED:
        say(f"{line.file}:{line.line}: {line.reason}")


async def _store(memory: Mnemic, who: Identity, held: dict[str, list[Line]], taken: _Taken) -> None:
    for session, lines in held.items():
        observed = await memory.observe(_in(who, session), [line.message for line in lines])
        taken.accepted[session] += observed.accepted
    held.clear()


async def _form_sessions(memory: Mnemic, who: Identity, sessions: Sequence[str]) -> dict[str, list[FormationOutput]]:
    runs: dict[str, list[FormationOutput]] = {}
    with progress() as bar:
        for session in bar.track(sessions, description="sessions formed"):
            runs[session] = await memory.form(_in(who, session))
    return runs


def _in(who: Identity, session: str) -> Identity:
    return who.model_copy(update={"session_id": session})


def _report(taken: _Taken, runs: Sequence[FormationOutput]) -> None:
    stored: Counter[str] = Counter()
    for run in runs:
        stored.update(run.get("stored", {}))
    new = sum(taken.accepted.values())
    show(f"{taken.read} messages read, {new} of them new, in {len(taken.accepted)} sessions")
    if taken.malformed:
        show(f"{len(taken.malformed)} malformed lines were left out")
    show(f"stored: {', '.join(f'{count} {kind}s' for kind, count in sorted(stored.items())) or 'nothing new'}")
    superseded = sum(run.get("superseded", 0) for run in runs)
    show(f"facts superseded: {superseded}, known before: {sum(run.get('repeated', 0) for run in runs)}")
    for result in (result for run in runs for result in run.get("consolidations", [])):
        if result["outcome"] != "saved":
            say(f"the consolidation of {result['scope_key']} ended as: {result['outcome']}")
