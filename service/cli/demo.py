"""The command `demo`: what example conversations told, what became memories, and later questions, on 80 lines."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from rich.console import RenderableType
from rich.text import Text

from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.shape import clip_text, count_tokens
from mnemic.service.cli.form import FormedSession, runs_of, summary
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
from mnemic.service.cli.usage import spent_by
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.records import Memory, SearchResult

if TYPE_CHECKING:
    from mnemic.models.replay import Replay

#: Characters of a shown consolidation, and of a shown message or fact.
_TEXT_CHARS = 340
_LINE_CHARS = 160
#: Remedy for a record that does not fit.
_RECORD_ANEW = "conversations or settings have changed. Run `mnemic demo --live`, or record anew: see \
benchmarks/corpus/recorded/README.md"
#: Maximum number of shown facts with their messages, of changes, of questions, and of results of each.
_FACTS = 4
_CHANGES = 3
_QUESTIONS = 4
_RESULTS = 2
#: Minimum share of the words of a shown fact that its message has.
_MIN_SHARE = 0.5
_TOKENS = ("input_tokens", "output_tokens")

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


IsLive = Annotated[
    bool,
    typer.Option(
        "--live", help="Form with your own model, or with the offline rules without one, in place of recorded answers."
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


async def demo(directory: Directory = None, live: IsLive = False, as_json: AsJson = False) -> None:
    """Form example conversations with recorded answers of a model, and show what is remembered. Needs no key.

    Every run has an agent of its own, so that its memories do not mix with others. A directory without recorded answers
    is formed with your own model or the offline rules. The exit code is 1 if a conversation has a problem.
    """
    talks = Talks(directory)
    is_recorded = not live and talks.record.exists()
    if is_recorded:
        with _open_record(talks) as replay:
            found = await _run(talks, replay.settings(), quiet=as_json)
        for note in replay.notes():
            say(note)
    else:
        found = await _run(talks, {}, quiet=as_json)
    report(found, chain(_describe(found, talks), _next_steps(found, is_recorded=is_recorded)), as_json=as_json)
    exit_if_wrong(any(session.complaints() for session in found.sessions))


# -- what is formed and asked


def _open_record(talks: Talks) -> "Replay":
    from mnemic.models.replay import Replay, read_record  # the imports of a server, which other runs do not need

    return Replay(read_record(talks.record), _RECORD_ANEW)


async def _run(talks: Talks, settings: dict[str, Any], *, quiet: bool) -> Demo:
    agent_id = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    async with open_memory(**settings) as memory:
        if not quiet:
            messages, people = sum(map(len, talks.messages.values())), len(talks.people())
            with_answers = ", with recorded answers in place of a language model" if settings else ""
            counts = f"{messages} messages of {len(talks.messages)} conversations of {people} people"
            show(f"Forming memories of {counts}{with_answers}.", verbatim(memory.admin.describe()))
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


def _describe(found: Demo, talks: Talks) -> Iterator[RenderableType]:
    for session in found.sessions:
        for complaint in session.complaints():
            yield plain(f"{session.session}: {complaint}")
    person = _person_of(found)
    own = [item for item in found.memories if item.scope_key == scope_key("user", person)]
    yield from _heading(f"What {display_name(person)} told, and the facts made of it")
    yield from table(_told_rows(own, talks))
    yield from _heading("What changed: a fact that no longer holds is closed, not overwritten")
    yield from table(_change_rows(found.memories)) or ["nothing"]
    consolidations = [item for item in own if item.kind == "consolidation" and item.state == "active"]
    if consolidations:
        yield from _heading("What every prompt has: one text for each person, within a budget")
        yield plain(_clipped(consolidations[-1].content, _TEXT_CHARS))
    if found.answers:
        yield from _heading("Questions months later, and what the agent is given for its answer")
        for answer in found.answers[:_QUESTIONS]:
            yield from _describe_answer(answer)
    yield from _heading("What it cost")
    yield from _costs(found, talks)


def _heading(title: str) -> tuple[str, str]:
    return "", f"[bold cyan]{title}[/]"


def _person_of(found: Demo) -> str:
    """Return the first person with a question and some facts, else the one with the most facts."""
    owners = Counter(split_scope_key(item.scope_key)[1] for item in found.memories if item.kind == "fact")
    for answer in found.answers:
        if owners[answer.question.user] >= _FACTS:
            return answer.question.user
    return max(found.people, key=lambda person: owners[person])


def _told_rows(memories: Sequence[Memory], talks: Talks) -> Iterator[tuple[object, ...]]:
    """Yield facts that have half of their words from one message, spread over the whole time, each with its message."""
    close: list[tuple[Memory, str]] = []
    for fact in memories:
        if fact.kind != "fact":
            continue
        message, share = _message_of(fact, talks)
        if share >= _MIN_SHARE and len(message) <= _LINE_CHARS:
            close.append((fact, message))
    for fact, message in close[:: -(-len(close) // _FACTS) or 1]:
        yield day(fact.valid_from), [plain(f"“{message}”", "italic"), f"→ {_clipped(fact.content, _LINE_CHARS)}"]


def _message_of(fact: Memory, talks: Talks) -> tuple[str, float]:
    """Return the user's message of the same session with the most words of a fact, and their share of the fact."""
    wanted = content_tokens(fact.content)
    best, most = "", 0
    for message in talks.messages.get(fact.source_session_id or "", ()):
        shared = len(wanted & content_tokens(message["content"]))
        if message["role"] == "user" and shared > most:
            best, most = " ".join(message["content"].split()), shared
    return best, most / max(len(wanted), 1)


def _change_rows(memories: Sequence[Memory]) -> Iterator[tuple[object, ...]]:
    """Yield the shortest facts that later ones replaced."""
    by_id = {item.id: item for item in memories}
    changes: list[tuple[Memory, Memory]] = []
    for old in memories:
        new = by_id.get(old.superseded_by) if old.superseded_by else None
        if new and old.kind == new.kind == "fact" and old.subject_user_id and new.subject == old.subject:
            changes.append((new, old))
    changes.sort(key=lambda change: len(change[0].content + change[1].content))
    for new, old in sorted(changes[:_CHANGES], key=lambda change: change[0].valid_from):
        yield day(new.valid_from), [plain(old.content, "strike"), f"→ {new.content}"]


def _describe_answer(answer: Answer) -> Iterator[RenderableType]:
    name, tokens = (f"{display_name(answer.question.user)}: ", "bold"), (f" · {answer.tokens} tokens", "dim")
    yield Text.assemble(name, plain(answer.question.question), tokens)
    rows = []
    for item in answer.memories[:_RESULTS]:
        content = _clipped(item.content, _LINE_CHARS)
        said = f"{display_name(item.subject)} said: “{content}”" if item.kind == "message" else content
        rows.append((day(item.dated), said))
    yield from table(rows) or ["nothing found"]


def _costs(found: Demo, talks: Talks) -> Iterator[str]:
    runs = runs_of(found.sessions)
    stored, *others = summary(runs)
    yield f"{'; '.join([stored.capitalize(), *others])}."
    spent = spent_by(runs)
    if spent:
        tokens_in, tokens_out = (sum(getattr(usage, name) for usage in spent) for name in _TOKENS)
        yield f"Forming took about {tokens_in:,} tokens in and {tokens_out:,} out of a model, once."
    if found.answers:
        mean = sum(answer.tokens for answer in found.answers) // len(found.answers)
        whole = sum(count_tokens(message["content"]) for talk in talks.messages.values() for message in talk)
        yield f"A recall takes no model, and {mean:,} tokens of context on average; all messages have {whole:,}."


def _next_steps(found: Demo, *, is_recorded: bool) -> Iterator[RenderableType]:
    # the path of this program if its name alone is not found
    program = sys.argv[0] if Path(sys.argv[0]).name == "mnemic" and not shutil.which("mnemic") else "mnemic"
    person = _person_of(found)
    lines = {
        f"Read all memories of {display_name(person)}:": command_line("memories", agent=found.agent_id, user=person),
        "Talk with an agent that remembers. Without a key, it only quotes what you told it:": command_line(
            "chat", agent="guide", user="you"
        ),
    }
    if is_recorded:
        lines["Form the same with your own model, or with the offline rules:"] = "mnemic demo --live"
    yield ""
    for reason, line in lines.items():
        yield from (reason, verbatim(f"  {program}{line.removeprefix('mnemic')}"))


def _clipped(text: str, most: int) -> str:
    return clip_text(" ".join(text.split()), most)


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (demo,)
