"""The command `demo`: the example conversations, from raw messages to answered questions, on about 120 lines."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from rich.console import RenderableType
from rich.text import Text

from mnemic.memory.text.shape import clip_text
from mnemic.service.cli.form import FormedSession, summary
from mnemic.service.cli.options import AsJson, open_memory
from mnemic.service.cli.talks import Question, Talks
from mnemic.service.cli.terminal import (
    command_line,
    day,
    exit_if_wrong,
    plain,
    progress,
    report,
    say,
    show,
    table,
    verbatim,
)
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.records import Memory, SearchResult

if TYPE_CHECKING:
    from mnemic.models.replay import Replay

#: Characters of a shown consolidation, and of a shown message.
_TEXT_CHARS = 420
_LINE_CHARS = 180
#: Remedy for a record that does not fit.
_RECORD_ANEW = "conversations or settings have changed. Run `mnemic demo` without --recorded, or record anew: see \
benchmarks/corpus/recorded/README.md"
#: Maximum number of shown results, contradictions and facts.
_RESULTS = 3
_CHANGES = 8
_FACTS = 8

Directory = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DIR]",
        exists=True,
        file_okay=False,
        help="Directory with *.jsonl conversations, and questions in expected.json. Default: the examples.",
        show_default=False,
    ),
]


AsRecorded = Annotated[
    bool,
    typer.Option(
        "--recorded", help="Replay answers of a careful reader in the place of a language model; needs no key."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Search results of a question, best first, and their tokens in a prompt."""

    question: Question
    memories: tuple[SearchResult, ...]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Results of the demo."""

    agent_id: str
    #: All people, in the order of their first messages.
    people: tuple[str, ...]
    sessions: list[FormedSession]
    #: All stored memories, closed ones too, oldest first.
    memories: list[Memory]
    answers: list[Answer]


async def demo(directory: Directory = None, recorded: AsRecorded = False, as_json: AsJson = False) -> None:
    """Form example conversations and show their memories.

    Every run has an agent of its own, so that its memories do not mix with others. The exit code is 1 if a conversation
    has a problem.
    """
    talks = Talks(directory)
    if recorded:
        with _open_record(talks) as replay:
            found = await _run(talks, replay.settings(), quiet=as_json)
        for note in replay.notes():
            say(note)
    else:
        found = await _run(talks, {}, quiet=as_json)
    report(found, _describe(found), as_json=as_json)
    if not as_json and not recorded and talks.record.exists():
        show(
            "",
            verbatim("mnemic demo --recorded: the same with the answers of a careful reader"),
        )
    exit_if_wrong(any(session.complaints() for session in found.sessions))


# -- what is formed and asked


def _open_record(talks: Talks) -> "Replay":
    from mnemic.models.replay import Replay, read_record  # the imports of a server, which other runs do not need

    if not talks.record.exists():
        raise InvalidInputError(f"no answers were recorded for these conversations: {talks.record} is missing")
    return Replay(read_record(talks.record), _RECORD_ANEW)


async def _run(talks: Talks, settings: dict[str, Any], *, quiet: bool) -> Demo:
    agent_id = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    async with open_memory(**settings) as memory:
        if not quiet:
            if settings:
                show("Recorded answers of a careful reader, in the place of a language model.")
            messages, people = sum(map(len, talks.messages.values())), len(talks.people())
            show(verbatim(memory.admin.describe()))
            show(f"Forming memories: {messages} messages, {len(talks.messages)} conversations, {people} people.")
        return await _formed(memory, agent_id, talks)


async def _formed(memory: Mnemic, agent_id: str, talks: Talks) -> Demo:
    sessions, stored = [], dict[UUID, Memory]()
    with progress() as bar:
        for session in bar.track(talks.messages, description="forming memories"):
            sessions.append(await talks.form(memory, agent_id, session))
            who = talks.identity(agent_id, session)
            for person in talks.people(session):  # each person sees other memories
                found = await memory.memories(who.model_copy(update={"user_id": person}), with_closed=True)
                stored.update({item.id: item for item in found})
    answers = []
    for question in talks.questions:
        groups = (question.group,) if question.group else ()
        who = Identity(agent_id=agent_id, user_id=question.user, group_ids=groups)
        recalled = await memory.recall(who, question.question, search="always")
        answers.append(Answer(question=question, memories=recalled.memories, tokens=recalled.tokens))
    memories = sorted(stored.values(), key=lambda item: item.valid_from)
    return Demo(agent_id=agent_id, people=talks.people(), sessions=sessions, memories=memories, answers=answers)


# -- how it looks


def _describe(found: Demo) -> Iterator[RenderableType]:
    yield from _heading("What was formed")
    yield from summary(found.sessions)
    for session in found.sessions:
        for complaint in session.complaints():
            yield plain(f"{session.session}: {complaint}")
    yield from _heading("Memories: the consolidation of each scope, and examples of facts")
    facts: list[Memory] = []
    consolidations: list[Memory] = []
    owners = Counter[str]()
    for item in found.memories:
        owners[split_scope_key(item.scope_key)[1]] += 1
        if item.state == "active" and item.kind == "fact":
            facts.append(item)
        if item.state == "active" and item.kind == "consolidation":
            consolidations.append(item)
    # spread over the whole time
    examples = facts[:: -(-len(facts) // _FACTS) or 1]
    in_order = sorted([*consolidations, *examples], key=lambda item: item.scope_key)
    for scope_key, items in groupby(in_order, key=lambda item: item.scope_key):
        yield plain(scope_key, "bold")
        yield from table((day(item.valid_from), item.kind, _clipped(item.content, _TEXT_CHARS)) for item in items)
    yield from _describe_changes(found.memories)
    if found.answers:
        yield from _heading("Later questions, and their search results")
        for answer in found.answers:
            yield from _describe_answer(answer)
    # the path of this program if its name alone is not found
    program = sys.argv[0] if Path(sys.argv[0]).name == "mnemic" and not shutil.which("mnemic") else "mnemic"
    most = max(found.people, key=lambda person: owners[person])  # the person with the most memories
    yield from ("", "Look around:")
    for words in (("memories",), ("recall", "What did I tell you last time?")):
        line = command_line(*words, agent=found.agent_id, user=most)
        yield verbatim(f"  {program}{line.removeprefix('mnemic')}")


def _heading(title: str) -> tuple[str, str]:
    return "", f"[bold cyan]{title}[/]"


def _describe_changes(memories: Sequence[Memory]) -> Iterator[RenderableType]:
    by_id = {item.id: item for item in memories}
    changes: list[tuple[Memory, Memory]] = []
    for old in memories:
        if old.superseded_by in by_id:
            changes.append((by_id[old.superseded_by], old))
    changes.sort(key=lambda change: change[0].valid_from)
    if changes:
        yield from _heading(f"Facts that later ones replaced ({len(changes)}): closed, never overwritten")
    rows: list[tuple[object, ...]] = []
    for new, old in changes[:_CHANGES]:
        rows.append((day(new.valid_from), [plain(old.content, "strike"), f"→ {new.content}"]))
    yield from table(rows)


def _describe_answer(answer: Answer) -> Iterator[RenderableType]:
    name, tokens = (f"{display_name(answer.question.user)}: ", "bold"), (f" · {answer.tokens} tokens", "dim")
    yield Text.assemble(name, plain(answer.question.question), tokens)
    rows = []
    for item in answer.memories[:_RESULTS]:
        content = _clipped(item.content, _LINE_CHARS)
        said = f"{display_name(item.subject)} said: “{content}”" if item.kind == "message" else content
        rows.append((day(item.dated), said))
    yield from table(rows) or ["nothing found"]


def _clipped(text: str, most: int) -> str:
    return clip_text(" ".join(text.split()), most)


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (demo,)
