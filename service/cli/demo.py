"""`mnemic demo`: the example conversations, from raw messages to answered questions."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from mnemic.service.cli.demo_corpus import Conversation, Question, example_directory, read_conversations, read_questions
from mnemic.service.cli.demo_report import Answer, Contradiction, Demo, DemoSession, show_demo, show_start
from mnemic.service.cli.formed import form_session
from mnemic.service.cli.options import AsJson
from mnemic.service.cli.terminal import emit, exit_if_wrong, progress
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.records import Memory

Directory = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DIR]",
        exists=True,
        file_okay=False,
        help="Conversations of your own: *.jsonl, and questions in expected.json. Default: those of the package.",
        show_default=False,
    ),
]


async def demo(directory: Directory = None, as_json: AsJson = False) -> None:
    """Form example conversations and show what became of them.

    Every run works for an agent of its own, so that nothing mixes with other memories. The exit code is 1 where nothing
    came of a conversation.
    """
    source = directory or example_directory()
    conversations, questions = read_conversations(source), read_questions(source)
    agent_id = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    async with Mnemic.open() as memory:
        if not as_json:
            show_start(memory.describe(), conversations)
        sessions = await _form(memory, agent_id, conversations)
        stored = await _stored(memory, agent_id, conversations)
        shown = Demo(
            agent_id=agent_id,
            runs_on=memory.describe(),
            sessions=sessions,
            facts=sorted(
                (item for item in stored.values() if item.kind == "fact" and item.state == "active"),
                key=lambda fact: fact.valid_from,
            ),
            consolidations=[item for item in stored.values() if item.kind == "consolidation"],
            contradictions=_contradictions(stored),
            answers=[await _answer(memory, agent_id, question) for question in questions],
        )
    if as_json:
        emit(shown)
    else:
        show_demo(shown)
    exit_if_wrong(any(session.complaints for session in sessions))


async def _form(memory: Mnemic, agent_id: str, conversations: Sequence[Conversation]) -> list[DemoSession]:
    sessions = []
    with progress() as bar:
        for conversation in bar.track(conversations, description="forming memories"):
            who = conversation.identity(agent_id)
            await memory.observe(who, conversation.messages, several_speakers=True)
            formed = await form_session(memory, who)
            saved = [result["scope_key"] for result in formed.consolidations if result["outcome"] == "saved"]
            sessions.append(
                DemoSession(
                    session=conversation.session,
                    people=conversation.people,
                    messages=len(conversation.messages),
                    counts=formed.counts,
                    consolidated=saved,
                    complaints=formed.complaints() if formed.is_wrong else [],
                )
            )
    return sessions


async def _stored(memory: Mnemic, agent_id: str, conversations: Iterable[Conversation]) -> dict[UUID, Memory]:
    """Everything that was formed: each person sees their own, so each is asked."""
    identities: dict[Identity, None] = {}
    for conversation in conversations:
        who = conversation.identity(agent_id)
        identities.update({who.model_copy(update={"user_id": person}): None for person in conversation.people})
    found = [item for who in identities for item in await memory.memories(who, with_closed=True)]
    return {item.id: item for item in sorted(found, key=lambda item: item.scope_key)}


def _contradictions(stored: dict[UUID, Memory]) -> list[Contradiction]:
    changes = [
        Contradiction(scope_key=old.scope_key, old=old.content, new=new.content, since=new.valid_from)
        for old in stored.values()
        if old.superseded_by and (new := stored.get(old.superseded_by))
    ]
    return sorted(changes, key=lambda change: change.since)


async def _answer(memory: Mnemic, agent_id: str, question: Question) -> Answer:
    recalled = await memory.recall(question.identity(agent_id), question.question, search="always")
    return Answer(question=question, memories=recalled["memories"], tokens=recalled["tokens"])
