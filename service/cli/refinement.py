"""`mnemic refine` and `mnemic refinements`: an agent compresses its core memory. Figures only, no contents."""

from typing import Annotated, Final

import typer
from rich.console import RenderableType

from mnemic.service.cli.options import (
    ADMINISTRATOR,
    Actor,
    Agent,
    AsJson,
    Concerned,
    Groups,
    Limit,
    Session,
    governing,
    owner_of,
)
from mnemic.service.cli.terminal import (
    command_line,
    exit_if_wrong,
    plain,
    report,
    say,
    stack,
    table,
    to_the_second,
    verbatim,
)
from mnemic.service.memory import Mnemic
from mnemic.state.refinement import Refinement, RefinementResult
from mnemic.state.settings import OFFLINE

Key = Annotated[
    str | None,
    typer.Argument(metavar="SCOPE_KEY", help="Such as user:ana; without it, the agent's own memory."),
]
Force = Annotated[bool, typer.Option("--force", help="Also where the memory is within its budget.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what there is to do.")]

_TITLES: Final = ("when (UTC), and its id", "memories\ntokens", "what", "ended, by")
_CHANGES: Final = ("duplicates", "merged", "updated", "deleted", "protected")


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
    has_ended = result["outcome"] == "ended"
    report(result, [verbatim(_ended_line(result) if has_ended else _plan_line(result))], as_json=as_json)
    if by_rules and has_ended:
        say("the offline rules did it: MNEMIC_AGENT_MODEL names the agent's own model")
    if has_ended and _has_changed(result) and not as_json:
        say(f"to undo it: {command_line('undo', refinement=str(result['refinement_id']), agent=agent)}")
    exit_if_wrong(
        has_ended and result["resumed"] and result["ended"] == "time",
        "a session that was broken off ran out of time and is closed: the same command again begins a new one",
    )


def _has_changed(result: RefinementResult) -> bool:
    return any(result[name] for name in _CHANGES)


def _plan_line(result: RefinementResult) -> str:
    memories = result["memories_before"]
    size = f"{result['tokens_before']:,} tokens in {memories} memories"
    if result["outcome"] == "not_due":
        return f"not due: {size}" + ("; --force refines them all the same" if memories else "")
    resumes = "; resumes a session that was broken off" if result["resumed"] else ""
    of_these = f"protected {result['protected']}, exact duplicates {result['duplicates']}"
    return f"due: {size}, {of_these}; target {result['target_tokens']:,} tokens{resumes}"


def _ended_line(result: RefinementResult) -> str:
    missed = ", not reached" if result["tokens_after"] > result["target_tokens"] else ""
    target = f"target {result['target_tokens']:,}{missed}"
    ended = f"{'resumed, ' if result['resumed'] else ''}ended: {result['ended']}"
    after = f"{result['tokens_after']:,} tokens"
    if not _has_changed(result):
        return f"nothing changed: {after} in {result['memories_after']} memories; {target}, {ended}"
    memories = f"{result['memories_before']} → {result['memories_after']} memories"
    return f"{memories}, {result['tokens_before']:,} → {after}; {target}, {result['protected']} protected, {ended}"


async def refinements(
    agent: Agent,
    user: Concerned = None,
    group: Groups = None,
    session: Session = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List refinements, newest first: figures, no contents."""
    async with governing(agent, user, session, group=group, blind="sees every scope key") as (machine, whose):
        rows = await machine.refinements(whose, limit=limit)
    report(rows, table(map(_row, rows), *_TITLES, ids=0), as_json=as_json, nothing="no refinements")


def _row(row: Refinement) -> tuple[RenderableType, ...]:
    which = stack(plain(f"{to_the_second(row.started_at)} {row.scope_key}"), plain(row.id, "dim"))
    memories = f"{row.memories_before:,} → {_figure(row.memories_after)}"
    tokens = f"{row.tokens_before:,} → {_figure(row.tokens_after)}\ntarget {row.target_tokens:,}"
    what = [f"{name} {count}" for name in _CHANGES if (count := getattr(row, name))]
    state = row.ended or ("running" if row.is_held else "broken off")
    return (
        which,
        f"{memories}\n{tokens}",
        "\n".join([*what, f"turns {row.steps}"]),
        stack(plain(state), plain(row.actor)),
    )


def _figure(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
