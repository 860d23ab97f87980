"""What a rollback would do, shown before it is done; then a question, and what became of it."""

import shlex
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import typer
from rich.text import Text

from mnemic.service.cli.terminal import EXIT_FOUND_WRONG, columns, emit, plain, say, show, show_text, withheld
from mnemic.state.errors import InvalidInputError, RollbackRefusedError
from mnemic.state.governance import LaterOperation, Rollback, RollbackOptions, StateChange


class RollBack(Protocol):
    """One undo or restore, all of it given but whether to do it."""

    def __call__(self, *, dry_run: bool) -> Awaitable[Rollback]: ...


@dataclass(frozen=True, kw_only=True)
class Request:
    """How the command line wants it done."""

    options: RollbackOptions
    yes: bool
    as_json: bool

    def __post_init__(self) -> None:
        if self.yes and self.options.dry_run:
            raise InvalidInputError("--yes does it and --dry-run does not: say one of them")


async def carry_out(roll_back: RollBack, request: Request, undo_with: Sequence[str]) -> None:
    """Shows the dry run; does it where that was said beforehand, or is said now at a terminal.

    Args:
        roll_back: what to do.
        request: how.
        undo_with: the options with which `mnemic undo` undoes it again.

    Raises:
        RollbackRefusedError: it was to be done, and something stands against it.
        typer.Exit: something stands against it, or nobody said that it is to be done.
    """
    planned = await roll_back(dry_run=True)
    is_refused = planned.refused_by(request.options) is not None
    if not request.as_json:
        _show(planned, is_refused=is_refused)
    why_not = _why_not(planned, request, is_refused=is_refused)
    done = planned if why_not is not None else await _do(roll_back, planned, request)
    if request.as_json:
        emit(done)
    elif done.op_id:
        show_text(f"done; to undo it: {shlex.join(['mnemic', 'undo', str(done.op_id), *undo_with])}")
    if why_not:
        say(f"nothing was changed: {why_not}")
        raise typer.Exit(EXIT_FOUND_WRONG)


def _why_not(planned: Rollback, request: Request, *, is_refused: bool) -> str | None:
    """Why it is not done; empty: nor shall it be. None: it is to be done."""
    if request.yes and (is_refused or not planned.changes_nothing):
        return None
    if is_refused:
        return "as things stand it is refused"
    if request.options.dry_run or planned.changes_nothing:
        return ""
    return withheld("Do it?", yes=request.yes, as_json=request.as_json)


async def _do(roll_back: RollBack, planned: Rollback, request: Request) -> Rollback:
    try:
        return await roll_back(dry_run=False)
    except RollbackRefusedError:
        if request.as_json:
            emit(planned)
        raise


def _show(planned: Rollback, *, is_refused: bool) -> None:
    _show_memories("would change", planned.changes)
    if planned.later:
        many = _counted(len(planned.later), "later operation", "later operations")
        show(plain(f"{many} on the same memories (--cascade undoes them too)", "bold"), _later(planned.later))
    _show_memories("cannot come back, for what was said is erased (--skip-erased leaves it so)", planned.erased)
    _show_memories("living today in the way: to be forgotten first, or what made them undone", planned.twins)
    _show_memories("protected, for an administrator alone to roll back", planned.protected)
    if planned.relations:
        show(plain(f"{_counted(planned.relations, 'relation', 'relations')} would go or come back", "bold"))
    if planned.changes_nothing and not is_refused:
        say("nothing would change")


def _later(operations: Sequence[LaterOperation]) -> Text:
    return Text("\n").join(plain(f"{later.op_id} {later.reason}") for later in operations)


def _show_memories(what: str, changes: Sequence[StateChange]) -> None:
    """As many, of which kind, from which state to which, and their ids."""
    if not changes:
        return
    table = columns()
    for (scope_key, kind, before, after), group in groupby(sorted(changes, key=_sort), key=_sort):
        ids = [plain(change.memory_id, "dim") for change in group]
        table.add_row(f"{len(ids)}", kind, f"{before} → {after or '?'}", plain(scope_key), Text("\n").join(ids))
    show(plain(f"{_counted(len(changes), 'memory', 'memories')} {what}", "bold"), table)


def _counted(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _sort(change: StateChange) -> tuple[str, str, str, str]:
    return change.scope_key, change.kind, change.before, change.after or ""
