"""The commands that change memories, such as `correct`, `forget`, `erase` and `refine`, and those for vectors."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import typer
from rich.text import Text

from mnemic.prompts.explicit.tools import correct_answer, forget_answer
from mnemic.service.cli.options import (
    ADMINISTRATOR,
    Agent,
    AsJson,
    GoverningOptions,
    Groups,
    Limit,
    MemoryId,
    PersonOptions,
    Principal,
    Session,
    User,
    Yes,
    governing,
    open_memory,
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
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.model_settings import OFFLINE
from mnemic.state.refinement import Refinement
from mnemic.state.results import RefinementResult

ToErase = Annotated[
    list[UUID] | None, typer.Argument(metavar="ID", help="Id of a memory or message, from `mnemic query`.")
]
ToProtect = Annotated[list[UUID], typer.Argument(metavar="ID", help="Ids of memories, from `mnemic memories`.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the plan.")]

_TITLES: Final = ("when (UTC), and its id", "memories\ntokens", "changes", "ended, by")
_CHANGES: Final = ("duplicates", "merged", "updated", "deleted", "protected")


async def correct(
    memory_id: MemoryId,
    content: Annotated[str, typer.Argument(metavar="TEXT", help="The right statement, in one sentence.")],
    person: PersonOptions,
    as_json: AsJson = False,
) -> None:
    """Correct a memory of a person: it is closed, and a new memory replaces it."""
    async with open_memory() as memory:
        done = await memory.correct(person.owner(), memory_id, content)
    report(done, [plain(correct_answer(done))], as_json=as_json)


async def forget(memory_id: MemoryId, person: PersonOptions, as_json: AsJson = False) -> None:
    """Forget a memory of a person; `mnemic undo` reverses it."""
    async with open_memory() as memory:
        done = await memory.forget(person.owner(), memory_id)
    report(done, [plain(forget_answer(memory_id, done.changed))], as_json=as_json)


async def embed(person: PersonOptions, as_json: AsJson = False) -> None:
    """Embed entries that have no vector. The exit code is 1 if some still have none."""
    async with open_memory() as memory:
        filled = await memory.admin.embed_pending(person.owner())
    line = f"vectors stored: {filled.embedded}, still without: {filled.pending}"
    report(filled, [plain(line)], as_json=as_json)
    exit_if_wrong(filled.pending, "the embedder refuses these texts; text search alone finds them")


async def reembed(
    agent: Annotated[str | None, typer.Option(help="One agent. Default: all agents.")] = None,
    as_json: AsJson = False,
) -> None:
    """Move all vectors to the embedder of the settings, while searches use the former ones."""
    identity = None if agent is None else Identity(agent_id=agent)
    async with open_memory() as memory:
        with progress() as bar:
            task = bar.add_task("embedding", total=None)

            def advance(done: int, left: int) -> None:
                bar.update(task, completed=done, total=done + left)

            moved = await memory.admin.reembed(identity, progress=advance)
    line = f"agents moved: {moved.agents}, vectors made: {moved.embedded}, texts refused: {moved.refused}"
    report(moved, [plain(line)], as_json=as_json)


async def erase(
    agent: Agent,
    user: User,
    memory_ids: ToErase = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Erase everything that the agent has of this person.")
    ] = False,
    session: Session = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase memories of a person for good, with every memory of the same content. Continue an interrupted erasure.

    The exit code is 1 if an id does not belong to the person, or if something is left.
    """
    ids = list(dict.fromkeys(memory_ids or ()))
    if everything == bool(ids):
        raise InvalidInputError("name the ids to erase, or use --everything, but not both")
    identity = PersonOptions(agent=agent, user=user, session=session).identity()
    if not dry_run:
        erased = f"memories ({len(ids)})"
        if everything:
            erased = "everything this agent has of this person"
        _require_consent(f"Erase {erased} for good?", yes=yes, as_json=as_json)
    done = await _erase(identity, ids, dry_run=dry_run)
    if done.goes_on_from:
        say(f"this continued an erasure that began at {done.goes_on_from:%Y-%m-%d %H:%M} UTC")
    if dry_run:
        report({"going": done.going, "staying": done.staying}, _plan(done), as_json=as_json)
    else:
        figures = {"erased": done.erased, "messages": done.messages, "left": done.left}
        report(figures, _listed("erased", done.erased, f", and messages: {done.messages}"), as_json=as_json)
    missing = sorted({*ids}.difference(done.erased, (item.id for item in done.going)))
    if missing:
        say(f"not of this person, or already erased: {' '.join(map(str, missing))}")
    if done.left:
        say(f"{done.left} are left, since new ones were written meanwhile: the same command continues")
    exit_if_wrong(missing or done.left)


async def _erase(identity: Identity, ids: Sequence[UUID], *, dry_run: bool) -> Erasure:
    async with open_memory() as memory:
        with progress() as bar:
            task = bar.add_task("erasing", total=None)

            def advance(done: int, left: int) -> None:
                bar.update(task, completed=done, total=done + left)

            if ids:
                return await memory.privacy.erase(identity, *ids, dry_run=dry_run, progress=advance)
            return await memory.privacy.erase_person(identity, dry_run=dry_run, progress=advance)


def _plan(planned: Erasure) -> Iterator[Text]:
    for item in (*planned.going, *planned.staying):
        text, end = item.content, "goes"
        if text is None:
            text = f"of {item.scope_key}"
        if item.stays:
            end = f"stays, {item.stays}"
        yield plain(f"{end}: {item.kind} {item.id} {text}")
    messages = sum(item.kind == "message" for item in planned.going)
    going = f"memories: {len(planned.going) - messages}, and messages: {messages}"
    yield plain(f"would be erased: {going}; would stay: {len(planned.staying)}")


async def purge(agent: Agent, actor: Principal = ADMINISTRATOR, yes: Yes = False, as_json: AsJson = False) -> None:
    """Erase messages and memories that are due by age, as administrator.

    The contents of formed messages are due after MNEMIC_FORGET_AFTER_DAYS, expired memories after
    MNEMIC_RETENTION_PURGE_AFTER_DAYS if it is set.
    """
    _require_consent("Erase due messages and memories for good?", yes=yes, as_json=as_json)
    async with Administration.open(actor=actor) as administration:
        forgotten = await administration.forget_messages(Identity(agent_id=agent))
        erased = await administration.purge(Identity(agent_id=agent)) if administration.purges else []
        if not administration.purges:
            say("no memory is purged: MNEMIC_RETENTION_PURGE_AFTER_DAYS is not set")
    lines = _listed("erased", erased, f", and contents of messages: {forgotten}")
    report({"erased": erased, "messages": forgotten}, lines, as_json=as_json)


def _require_consent(question: str, *, yes: bool, as_json: bool) -> None:
    obstacle = withheld(question, yes=yes, as_json=as_json)
    if obstacle is not None:
        report({"erased": []}, (), as_json=as_json)
    exit_if_wrong(obstacle, f"nothing was erased: {obstacle}")


async def protect(
    memory_ids: ToProtect, agent: Agent, actor: Principal = ADMINISTRATOR, as_json: AsJson = False
) -> None:
    """Protect memories from every change by agents, as administrator. The exit code is 1 for an unknown id."""
    await _protect(memory_ids, agent, actor, as_json=as_json, protected=True)


async def unprotect(
    memory_ids: ToProtect, agent: Agent, actor: Principal = ADMINISTRATOR, as_json: AsJson = False
) -> None:
    """Lift the protection of memories, as administrator. The exit code is 1 for an unknown id."""
    await _protect(memory_ids, agent, actor, as_json=as_json, protected=False)


async def _protect(memory_ids: Sequence[UUID], agent: str, actor: str, *, as_json: bool, protected: bool) -> None:
    """Change the protection of each memory in an operation of its own."""
    changed: list[UUID] = []
    missing: list[UUID] = []
    who = Identity(agent_id=agent)
    async with Administration.open(actor=actor) as administration:
        change, done = administration.unprotect, "unprotected"
        if protected:
            change, done = administration.protect, "protected"
        for memory_id in dict.fromkeys(memory_ids):
            try:
                protection = await change(who, memory_id)
            except UnknownMemoryError:
                missing.append(memory_id)
                continue
            if protection.changed:
                changed.append(memory_id)
    report({done: changed}, _listed(done, changed), as_json=as_json)
    exit_if_wrong(missing, f"no active memory of this agent: {' '.join(map(str, missing))}")


def _listed(done: str, ids: Sequence[UUID], more: str = "") -> list[Text]:
    return [*map(plain, ids), plain(f"memories {done}: {len(ids)}{more}")]


async def refine(
    agent: Agent,
    key: Annotated[
        str | None, typer.Argument(metavar="SCOPE_KEY", help="Scope key such as user:ana. Default: that of the agent.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Person whose context memory to refine; short for user:PERSON.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Refine also below the budget.")] = False,
    dry_run: DryRun = False,
    actor: Principal = ADMINISTRATOR,
    as_json: AsJson = False,
) -> None:
    """Let an agent compress the context memory of a scope key above its budget, or continue an interrupted run."""
    if key is not None and user is not None:
        raise InvalidInputError("SCOPE_KEY and --user exclude each other: --user ana is short for user:ana")
    if user is not None:
        key = scope_key("user", user)
    identity = _identity_of(agent, key, actor)
    async with open_memory() as memory:
        async with waiting_shown(memory, say):
            result = await memory.refine(identity, key, force=force, dry_run=dry_run)
        by_rules = (await memory.admin.agent_settings(identity)).model_for("agent") == OFFLINE
    has_ended = result.outcome == "ended"
    report(result, [verbatim(_figures(result)), *spent_line(result.spent)], as_json=as_json)
    if by_rules and has_ended:
        say("the offline rules refined it: set MNEMIC_AGENT_MODEL to use a model")
    if has_ended and any(getattr(result, name) for name in _CHANGES) and not as_json:
        say(f"to undo it: {command_line('undo', refinement=str(result.id), agent=agent)}")
    exit_if_wrong(
        has_ended and result.resumed and result.ended == "time",
        "the interrupted session is closed, since its time was over: repeat the command to begin a new one",
    )


def _identity_of(agent: str, key: str | None, actor: str) -> Identity:
    """Return the narrowest identity that a scope key belongs to."""
    fields: dict[str, Any] = {"agent_id": agent, "actor_id": actor}
    if key is not None:
        scope, owner = split_scope_key(key)
        if scope == "group":
            fields["group_ids"] = (owner,)
        elif scope != "agent":
            fields[f"{scope}_id"] = owner
    return Identity(**fields)


def _figures(result: RefinementResult) -> str:
    """Return one line: the memory is not due, the plan, or the outcome."""
    before = f"{result.tokens_before:,} tokens in {result.memories_before} memories"
    if result.outcome == "not_due":
        return f"not due: {before}{'; --force refines them all the same' if result.memories_before else ''}"
    target, protected = f"target {result.target_tokens:,} tokens", f"protected {result.protected}"
    if result.outcome == "planned":
        resumes = "; continues an interrupted session" if result.resumed else ""
        return f"due: {before}, {protected}, exact duplicates {result.duplicates}; {target}{resumes}"
    after = f"{result.tokens_after or 0:,} tokens in {result.memories_after} memories"
    missed = ", not reached" if (result.tokens_after or 0) > (result.target_tokens or 0) else ""
    ended = f"{'resumed, ' if result.resumed else ''}ended: {result.ended}"
    return f"{before} → {after}; {target}{missed}, {protected}, {ended}"


async def refinements(
    person: GoverningOptions,
    group: Groups = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List refinements, newest first, without contents."""
    async with governing(person, group, blind="sees every scope key") as (service, identity):
        lister = service.admin if isinstance(service, Mnemic) else service
        rows = await lister.refinements(identity, limit=limit)
    report(rows, table(map(_row, rows), *_TITLES), as_json=as_json, nothing="no refinements")


def _row(row: Refinement) -> tuple[object, ...]:
    changes = [f"{name} {getattr(row, name)}" for name in _CHANGES if getattr(row, name)]
    state: str | None = row.ended
    if state is None:
        state = "running" if row.is_held else "interrupted"
    memories = f"{row.memories_before:,} → {_figure(row.memories_after)}"
    tokens = f"{row.tokens_before:,} → {_figure(row.tokens_after)}"
    return (
        [f"{to_the_second(row.started_at)} {row.scope_key}", plain(row.id, "dim")],
        [memories, tokens, f"target {row.target_tokens:,}"],
        [*changes, f"turns {row.steps}"],
        [state, row.actor],
    )


def _figure(number: int | None) -> str:
    if number is None:
        return "?"
    return f"{number:,}"


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (correct, forget, embed, reembed, refine, refinements, protect, unprotect, erase, purge)
