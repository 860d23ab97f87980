"""`mnemic refine` and `mnemic refinements`: an agent compresses its core memory. Figures only, no contents."""

import shlex
from collections.abc import Sequence
from datetime import UTC
from typing import Annotated, Final

import typer
from rich.text import Text

from mnemic.service.cli.options import (
    ADMINISTRATOR,
    Actor,
    Agent,
    AsJson,
    Concerned,
    Groups,
    Session,
    owner_of,
    person,
    refuse_blind,
)
from mnemic.service.cli.output import columns, emit, plain, say, show, show_text
from mnemic.service.cli.running import EXIT_FOUND_WRONG
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.refinement import Refinement, RefinementResult
from mnemic.state.settings import OFFLINE

Key = Annotated[
    str | None,
    typer.Argument(metavar="SCOPE_KEY", help="Such as user:ana; without it, the agent's own memory."),
]
Force = Annotated[bool, typer.Option("--force", help="Also where the memory is within its budget.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what there is to do.")]
Limit = Annotated[int, typer.Option("--limit", help="Refinements at most.")]

_DONE: Final = ("duplicates", "merged", "updated", "deleted", "protected")


async def refine(
    agent: Agent,
    key: Key = None,
    force: Force = False,
    dry_run: DryRun = False,
    actor: Actor = ADMINISTRATOR,
    as_json: AsJson = False,
) -> None:
    """Have an agent compress the core memory of a scope key that has outgrown its budget, or resume that."""
    who = owner_of(agent, key, actor)
    async with Mnemic.open() as memory:
        result = await memory.refine(who, key, force=force, dry_run=dry_run)
        by_rules = (await memory.agent_settings(who)).model_for("agent") == OFFLINE
    if as_json:
        emit(result)
    else:
        show_text(_told(result))
    if by_rules and result["outcome"] == "ended":
        say("the offline rules did it: MNEMIC_AGENT_MODEL names the agent's own model")
    if _changes(result) and not as_json:
        undo = ["mnemic", "undo", "--refinement", str(result["refinement_id"]), "--agent", agent]
        say(f"to undo it: {shlex.join(undo)}")
    if result["outcome"] == "ended" and result["resumed"] and result["ended"] == "time":
        say("a session that was broken off ran out of time and is closed: the same command again begins a new one")
        raise typer.Exit(EXIT_FOUND_WRONG)


def _changes(result: RefinementResult) -> bool:
    return result["outcome"] == "ended" and any(result[name] for name in _DONE)


def _told(result: RefinementResult) -> str:
    """One line."""
    if result["outcome"] == "ended":
        return _told_ended(result)
    memories = result["memories_before"]
    there_is = f"{result['tokens_before']:,} tokens in {memories} memories"
    if result["outcome"] == "not_due":
        return f"not due: {there_is}" + ("; --force refines them all the same" if memories else "")
    goes_on = "; goes on with a session that was broken off" if result["resumed"] else ""
    of_these = f"protected {result['protected']}, exact duplicates {result['duplicates']}"
    return f"due: {there_is}, {of_these}; target {result['target_tokens']:,} tokens{goes_on}"


def _told_ended(result: RefinementResult) -> str:
    before, after = f"{result['tokens_before']:,}", f"{result['tokens_after']:,}"
    missed = ", not reached" if result["tokens_after"] > result["target_tokens"] else ""
    target = f"target {result['target_tokens']:,}{missed}"
    ended = f"{'resumed, ' if result['resumed'] else ''}ended: {result['ended']}"
    if not _changes(result):
        return f"nothing changed: {after} tokens in {result['memories_after']} memories; {target}, {ended}"
    memories = f"{result['memories_before']} → {result['memories_after']} memories"
    return f"{memories}, {before} → {after} tokens; {target}, {result['protected']} protected, {ended}"


async def refinements(
    agent: Agent,
    user: Concerned = None,
    group: Groups = None,
    session: Session = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List refinements, newest first: figures, no contents."""
    refuse_blind(user, "sees every scope key", group=group, session=session)
    found = await _refinements(agent, user, group, session, limit)
    if as_json:
        emit(found)
    elif found:
        _list(found)
    else:
        say("no refinements")


async def _refinements(
    agent: str, user: str | None, group: Sequence[str] | None, session: str | None, limit: int
) -> list[Refinement]:
    if user is None:
        async with Administration.open() as administration:
            return await administration.refinements(agent, limit=limit)
    who = person(agent, user, group, session)
    async with Mnemic.open() as memory:
        return await memory.refinements(who, limit=limit)


def _list(found: Sequence[Refinement]) -> None:
    table = columns("when (UTC), and its id", "memories\ntokens", "what", "ended, by")
    table.columns[0].no_wrap = True  # an id is there to be copied
    for one in found:
        when = one.started_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        which = Text("\n").join([plain(f"{when} {one.scope_key}"), plain(one.id, "dim")])
        memories = f"{one.memories_before:,} → {_figure(one.memories_after)}"
        tokens = f"{one.tokens_before:,} → {_figure(one.tokens_after)}\ntarget {one.target_tokens:,}"
        what = [f"{name} {count}" for name in _DONE if (count := getattr(one, name))]
        who = Text("\n").join([plain(_state(one)), plain(one.actor)])
        table.add_row(which, f"{memories}\n{tokens}", "\n".join([*what, f"turns {one.steps}"]), who)
    show(table)


def _figure(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _state(one: Refinement) -> str:
    return one.ended or ("running" if one.is_held else "broken off")
