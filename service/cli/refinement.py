"""`mnemic refine` and `mnemic refinements`: an agent compresses its core memory. Figures only, no contents."""

import shlex
from collections.abc import Sequence
from datetime import UTC
from typing import Annotated, Final

import typer
from rich.text import Text

from mnemic.service.administration import Administration
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
from mnemic.service.memory import Mnemic
from mnemic.state.identity import scope_key
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
    key = scope_key("agent", agent) if key is None else key
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
    if result["outcome"] == "ended" and not as_json:
        undo = ["mnemic", "undo", "--refinement", str(result["refinement_id"]), "--agent", agent]
        say(f"to undo it: {shlex.join(undo)}")


def _told(result: RefinementResult) -> str:
    """One line."""
    memories, tokens = result["memories_before"], f"{result['tokens_before']:,}"
    if result["outcome"] == "ended":
        was_resumed = "resumed, " if result["resumed"] else ""
        return (
            f"{memories} → {result['memories_after']} memories, {tokens} → {result['tokens_after']:,} tokens, "
            f"{result['protected']} protected, {was_resumed}ended: {result['ended']}"
        )
    there_is = f"{tokens} tokens in {memories} memories"
    if result["outcome"] == "not_due":
        return f"not due: {there_is}" + ("; --force refines them all the same" if memories else "")
    goes_on = "; goes on with a session that was broken off" if result["resumed"] else ""
    of_these = f"protected {result['protected']}, exact duplicates {result['duplicates']}"
    return f"due: {there_is}, {of_these}; target {result['target_tokens']:,} tokens{goes_on}"


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
        tokens = f"{one.tokens_before:,} → {_figure(one.tokens_after)}"
        what = [f"{name} {count}" for name in _DONE if (count := getattr(one, name))]
        who = Text("\n").join([plain(_state(one)), plain(one.actor)])
        table.add_row(which, f"{memories}\n{tokens}", "\n".join([*what, f"turns {one.steps}"]), who)
    show(table)


def _figure(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _state(one: Refinement) -> str:
    return one.ended or ("running" if one.is_held else "broken off")
