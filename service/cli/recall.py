"""`mnemic query` and `mnemic recall`: memories come out."""

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, cast

import typer

from mnemic.policy.text.shape import display_name
from mnemic.service.cli.options import Agent, AsJson, Groups, Session, User, identity
from mnemic.service.cli.terminal import columns, day, emit, plain, report, say, show, show_text
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Scope
from mnemic.state.kinds import SearchType
from mnemic.state.query import METHOD_TOP_K
from mnemic.state.records import Found

Question = Annotated[str, typer.Argument(help="What is looked for, in plain words.")]
Role = Annotated[str, typer.Option("--role", help="The role whose allowlist holds; `owner` reads everything.")]
CategoryNames = Annotated[list[str] | None, typer.Option("--category", help="Only this category; repeatable.")]
ScopeNames = Annotated[
    list[str] | None, typer.Option("--scope", help="Only this scope: user, group, agent or session; repeatable.")
]
Conditions = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="NAME=VALUE", help="Only what meets this, such as importance_min=3; repeatable."),
]
Since = Annotated[str | None, typer.Option("--since", help="Only what changed, or was said, from this day on.")]
Before = Annotated[str | None, typer.Option("--before", help="Only what changed, or was said, before then.")]
TypeOfSearch = Annotated[str, typer.Option("--search-type", help="hybrid, semantic or text.")]
TopK = Annotated[int, typer.Option("--top-k", help="Results at most.")]
Threshold = Annotated[float | None, typer.Option("--threshold", help="The least cosine similarity of a result.")]
Budget = Annotated[int | None, typer.Option("--budget", help="Tokens the results may take in a prompt.")]
Explain = Annotated[bool, typer.Option("--explain", help="Say how each score came about.")]
OptionalQuestion = Annotated[str, typer.Argument(help="The message that is about to be answered.")]

#: Filters whose values are not text, and what such values are written as.
_NOT_TEXT: Final = frozenset({"pinned", "importance_min", "importance_max"})
_PLAIN: Final[dict[str, Any]] = {"true": True, "false": False, **{str(number): number for number in range(1, 6)}}


async def query(
    question: Question,
    agent: Agent,
    user: User,
    group: Groups = None,
    session: Session = None,
    role: Role = "supervisor",
    category: CategoryNames = None,
    scope: ScopeNames = None,
    condition: Conditions = None,
    since: Since = None,
    before: Before = None,
    search_type: TypeOfSearch = "hybrid",
    top_k: TopK = METHOD_TOP_K,
    threshold: Threshold = None,
    budget: Budget = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Search the memories and kept messages of a person, as an agent in a role may."""
    who = identity(agent, user, group, session, role)
    async with Mnemic.open() as memory:
        found = await memory.query(
            who,
            question,
            categories=category or None,
            filters=_filters(condition or (), since, before),
            scopes=cast("list[Scope] | None", scope or None),
            search_type=cast("SearchType", search_type),
            top_k=top_k,
            threshold=threshold,
            budget_tokens=budget,
        )
    report(found, partial(_list, explain=explain), as_json=as_json, nothing="nothing found")


def _list(found: Sequence[Found], *, explain: bool) -> None:
    table = columns("date", "score", "kind", "category", "")
    for item in found:
        text = f"{display_name(item.subject)}: {item.content}" if item.kind == "message" else item.content
        table.add_row(day(item.dated), f"{item.score:.2f}", item.kind, plain(item.category), plain(text))
        if explain:
            table.add_row("", "", "", "", plain(grounds(item), style="dim"))
    show(table)


def grounds(found: Found) -> str:
    """`0.98 = 0.93 (words 0.061, similarity 0.71) + 0.05 subject`."""
    if found.related_to is not None:
        return f"came along: it is related to {found.related_to}"
    why = found.explanation
    words = "no word" if why.text is None else f"words {why.text:.3f}"
    meaning = "no vector" if why.similarity is None else f"similarity {why.similarity:.2f}"
    added = "".join(f" {value:+.3f} {name}" for name, value in why.boosts.items())
    source = "; a message it was formed from fits better than its own words" if why.from_source else ""
    return f"{found.score:.3f} = {why.fused:.3f} ({words}, {meaning}){added}{source}"


def _filters(conditions: Sequence[str], since: str | None, before: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {"updated_after": since, "updated_before": before}
    for condition in conditions:
        name, is_one, value = condition.partition("=")
        if not is_one:
            raise InvalidInputError("--filter is written as NAME=VALUE, such as importance_min=3")
        given[name] = _PLAIN.get(value, value) if name in _NOT_TEXT else value
    return given


async def recall(
    agent: Agent,
    user: User,
    question: OptionalQuestion = "",
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Print what an agent would get into its prompt for this turn."""
    async with Mnemic.open() as memory:
        recalled = await memory.recall(identity(agent, user, group, session), question)
    if as_json:
        emit(recalled)
        return
    if recalled["context"]:
        show_text(recalled["context"])
    say(f"{recalled['tokens']} tokens; searched: {recalled['searched'] or 'no'}")
    if recalled["degraded"]:
        say(f"degraded: {recalled['degraded']}; see the warning")
    for key in recalled["over_budget"]:
        compress = shlex.join(["mnemic", "refine", key, "--agent", agent])
        say(f"the core memory of {key} has outgrown its budget; to compress it: {compress}")
