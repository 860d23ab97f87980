"""`mnemic correct`, `embed`, `reembed`, `erase`, `purge`, `protect`, `unprotect`; `refine`, `refinements`: figures."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final
from uuid import UUID

import typer
from rich.text import Text

from mnemic.prompts.explicit.answers import correct_answer
from mnemic.service.cli.options import (
    ADMINISTRATOR,
    Agent,
    AsJson,
    Concerned,
    Groups,
    Limit,
    Principal,
    Session,
    User,
    Yes,
    governing,
    identity,
    open_memory,
    person,
)
from mnemic.service.cli.terminal import (
    command_line,
    exit_if_wrong,
    plain,
    progress,
    report,
    say,
    table,
    to_the_second,
    verbatim,
    withheld,
)
from mnemic.service.cli.usage import spent_line
from mnemic.service.cli.waiting import waiting_shown
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, UnknownMemoryError
from mnemic.state.governance import Erasure
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.model_settings import OFFLINE
from mnemic.state.refinement import Refinement
from mnemic.state.results import RefinementResult

ToErase = Annotated[list[UUID] | None, typer.Argument(metavar="ID", help="Of memories, or of messages of theirs.")]
ToProtect = Annotated[list[UUID], typer.Argument(metavar="ID", help="As `mnemic memories` or `as-of` prints them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what there is to do.")]

_TITLES: Final = ("when (UTC), and its id", "memories\ntokens", "what", "ended, by")
_CHANGES: Final = ("duplicates", "merged", "updated", "deleted", "protected")


async def correct(
    memory_id: Annotated[UUID, typer.Argument(metavar="ID", help="As `mnemic memories` prints it.")],
    content: Annotated[str, typer.Argument(metavar="TEXT", help="What is right, in one sentence.")],
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Replace what a memory of a person says: it is closed, and what is right takes its place."""
    async with open_memory() as memory:
        done = await memory.correct(person(agent, user, group, session), memory_id, content)
    report(done, [plain(correct_answer(done))], as_json=as_json)


async def embed(
    agent: Agent, user: User, group: Groups = None, session: Session = None, as_json: AsJson = False
) -> None:
    """Embed what was stored without a vector; the exit code is 1 if some of it still has none."""
    async with open_memory() as memory:
        filled = await memory.admin.embed_pending(person(agent, user, group, session))
    line = f"vectors stored: {filled.embedded}, still without: {filled.pending}"
    report(filled, [plain(line)], as_json=as_json)
    exit_if_wrong(filled.pending, "the embedder refuses these texts; they are found by their words alone")


async def reembed(
    agent: Annotated[str | None, typer.Option(help="One agent; without it, all agents.")] = None,
    as_json: AsJson = False,
) -> None:
    """Move all vectors to the embedder of the settings, while searches use the former ones."""
    who = Identity(agent_id=agent) if agent else None
    async with open_memory() as memory:
        with progress() as bar:
            task = bar.add_task("embedding", total=None)

            def advance(done: int, left: int) -> None:
                bar.update(task, completed=done, total=done + left)

            moved = await memory.admin.reembed(who, progress=advance)
    line = f"agents moved: {moved.agents}, vectors made: {moved.embedded}, texts refused: {moved.refused}"
    report(moved, [plain(line)], as_json=as_json)


async def erase(
    agent: Agent,
    user: User,
    memory_ids: ToErase = None,
    everything: Annotated[bool, typer.Option("--everything", help="All that the agent has of this person.")] = False,
    session: Session = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase memories of a person for good, with what says the same; one that was broken off goes on.

    The exit code is 1 where one of the ids is none of theirs, or something is left.
    """
    ids = list(dict.fromkeys(memory_ids or ()))
    if everything == bool(ids):
        raise InvalidInputError("name the memories to erase, or say --everything")
    who = identity(agent, user, session=session)
    if not dry_run:
        what = "everything this agent has of this person" if everything else f"memories ({len(ids)})"
        _require_consent(f"Erase {what} for good?", yes=yes, as_json=as_json)
    done = await _erase(who, ids, dry_run=dry_run)
    if done.goes_on_from:
        say(f"this went on with an erasure that was begun at {done.goes_on_from:%Y-%m-%d %H:%M} UTC")
    if dry_run:
        report({"going": done.going, "staying": done.staying}, _plan(done), as_json=as_json)
    else:
        figures = {"erased": done.erased, "messages": done.messages, "left": done.left}
        report(figures, _listed("erased", done.erased, f", and messages: {done.messages}"), as_json=as_json)
    # those that are none of the person's
    missing = sorted({*ids}.difference(done.erased, (item.id for item in done.going)))
    if missing:
        say(f"no memory or message of this person, or erased already: {' '.join(map(str, missing))}")
    if done.left:
        say(f"{done.left} are left, for more is written all the time: the same command goes on")
    exit_if_wrong(missing or done.left)


async def _erase(who: Identity, ids: Sequence[UUID], *, dry_run: bool) -> Erasure:
    async with open_memory() as memory:
        with progress() as bar:
            task = bar.add_task("erasing", total=None)

            def advance(done: int, left: int) -> None:
                bar.update(task, completed=done, total=done + left)

            if ids:
                return await memory.privacy.erase(who, *ids, dry_run=dry_run, progress=advance)
            return await memory.privacy.erase_person(who, dry_run=dry_run, progress=advance)


def _plan(planned: Erasure) -> Iterator[Text]:
    for item in (*planned.going, *planned.staying):
        text = item.content if item.content is not None else f"of {item.scope_key}"
        yield plain(f"{f'stays, {item.stays}' if item.stays else 'goes'}: {item.kind} {item.id} {text}")
    messages = sum(item.kind == "message" for item in planned.going)
    going = f"memories: {len(planned.going) - messages}, and messages: {messages}"
    yield plain(f"would go: {going}; would stay: {len(planned.staying)}")


async def purge(agent: Agent, actor: Principal = ADMINISTRATOR, yes: Yes = False, as_json: AsJson = False) -> None:
    """Erase what is due by its age, as the administrators' role.

    Due are words of messages MNEMIC_FORGET_AFTER_DAYS after they were formed, and memories that expired longer ago than
    MNEMIC_RETENTION_PURGE_AFTER_DAYS, if that is set.
    """
    _require_consent("Erase words of messages and memories that are due for good?", yes=yes, as_json=as_json)
    async with Administration.open(actor=actor) as administration:
        forgotten = await administration.forget_messages(Identity(agent_id=agent))
        erased = await administration.purge(Identity(agent_id=agent)) if administration.purges else []
        if not administration.purges:
            say("no memory is purged: MNEMIC_RETENTION_PURGE_AFTER_DAYS is not set")
    lines = _listed("erased", erased, f", and messages that lost their words: {forgotten}")
    report({"erased": erased, "messages": forgotten}, lines, as_json=as_json)


def _require_consent(question: str, *, yes: bool, as_json: bool) -> None:
    why_not = withheld(question, yes=yes, as_json=as_json)
    if why_not is not None:
        report({"erased": []}, (), as_json=as_json)
    exit_if_wrong(why_not, f"nothing was erased: {why_not}")


async def protect(
    memory_ids: ToProtect, agent: Agent, actor: Principal = ADMINISTRATOR, as_json: AsJson = False
) -> None:
    """Protect memories, as administrator: no agent changes, merges or forgets them; exit code 1 on an unknown id."""
    await _protect(memory_ids, agent, actor, as_json=as_json, protected=True)


async def unprotect(
    memory_ids: ToProtect, agent: Agent, actor: Principal = ADMINISTRATOR, as_json: AsJson = False
) -> None:
    """Lift the protection of memories, as administrator; the exit code is 1 where one of the ids is unknown."""
    await _protect(memory_ids, agent, actor, as_json=as_json, protected=False)


async def _protect(memory_ids: Sequence[UUID], agent: str, actor: str, *, as_json: bool, protected: bool) -> None:
    """Each is an operation of its own."""
    changed, missing = [], []
    who = Identity(agent_id=agent)
    async with Administration.open(actor=actor) as administration:
        change = administration.protect if protected else administration.unprotect
        for memory_id in dict.fromkeys(memory_ids):
            try:
                protection = await change(who, memory_id)
            except UnknownMemoryError:
                missing.append(memory_id)
                continue
            if protection.changed:
                changed.append(memory_id)
    done = "protected" if protected else "unprotected"
    report({done: changed}, _listed(done, changed), as_json=as_json)
    exit_if_wrong(missing, f"no living memory of this agent: {' '.join(map(str, missing))}")


def _listed(done: str, ids: Sequence[UUID], more: str = "") -> list[Text]:
    return [*map(plain, ids), plain(f"memories {done}: {len(ids)}{more}")]


async def refine(
    agent: Agent,
    key: Annotated[
        str | None, typer.Argument(metavar="SCOPE_KEY", help="Such as user:ana; without it, the agent's own memory.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also where the memory is within its budget.")] = False,
    dry_run: DryRun = False,
    actor: Principal = ADMINISTRATOR,
    as_json: AsJson = False,
) -> None:
    """Have an agent compress the core memory of a scope key that has outgrown its budget, or resume that."""
    scope, owner = ("agent", agent) if key is None else split_scope_key(key)
    who = Identity(agent_id=agent, actor_id=actor)  # the narrowest that the scope key belongs to
    if scope != "agent":
        who = who.model_copy(update={"group_ids": (owner,)} if scope == "group" else {f"{scope}_id": owner})
    async with open_memory() as memory:
        async with waiting_shown(memory, say):
            result = await memory.refine(who, key, force=force, dry_run=dry_run)
        by_rules = (await memory.admin.agent_settings(who)).model_for("agent") == OFFLINE
    has_ended = result.outcome == "ended"
    report(result, [verbatim(_figures(result)), *spent_line(result.spent)], as_json=as_json)
    if by_rules and has_ended:
        say("the offline rules did it: MNEMIC_AGENT_MODEL names the agent's own model")
    if has_ended and any(getattr(result, name) for name in _CHANGES) and not as_json:
        say(f"to undo it: {command_line('undo', refinement=str(result.id), agent=agent)}")
    exit_if_wrong(
        has_ended and result.resumed and result.ended == "time",
        "a session that was broken off ran out of time and is closed: the same command again begins a new one",
    )


def _figures(result: RefinementResult) -> str:
    """One line: that it is not due, what there is to do, or what became of it."""
    before = f"{result.tokens_before:,} tokens in {result.memories_before} memories"
    if result.outcome == "not_due":
        return f"not due: {before}{'; --force refines them all the same' if result.memories_before else ''}"
    target, protected = f"target {result.target_tokens:,} tokens", f"protected {result.protected}"
    if result.outcome == "planned":
        resumes = "; resumes a session that was broken off" if result.resumed else ""
        return f"due: {before}, {protected}, exact duplicates {result.duplicates}; {target}{resumes}"
    after = f"{result.tokens_after or 0:,} tokens in {result.memories_after} memories"
    missed = ", not reached" if (result.tokens_after or 0) > (result.target_tokens or 0) else ""
    ended = f"{'resumed, ' if result.resumed else ''}ended: {result.ended}"
    return f"{before} → {after}; {target}{missed}, {protected}, {ended}"


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
        lister = machine.admin if isinstance(machine, Mnemic) else machine
        rows = await lister.refinements(whose, limit=limit)
    report(rows, table(map(_row, rows), *_TITLES), as_json=as_json, nothing="no refinements")


def _row(row: Refinement) -> tuple[object, ...]:
    memories, tokens = ("?" if after is None else f"{after:,}" for after in (row.memories_after, row.tokens_after))
    what = [f"{name} {count}" for name in _CHANGES if (count := getattr(row, name))]
    state = row.ended or ("running" if row.is_held else "broken off")
    figures = [f"{row.memories_before:,} → {memories}", f"{row.tokens_before:,} → {tokens}"]
    return (
        [f"{to_the_second(row.started_at)} {row.scope_key}", plain(row.id, "dim")],
        [*figures, f"target {row.target_tokens:,}"],
        [*what, f"turns {row.steps}"],
        [state, row.actor],
    )
