"""Conversations in a directory, the questions asked of them later, and the identities that they are formed for."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from mnemic.service.cli.form import FormedSession, form_session
from mnemic.service.cli.message_files import FileMessage, read_messages
from mnemic.service.cli.terminal import say
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import HostId, Identity, scope_key
from mnemic.state.times import local_time

#: Who shares a conversation with several people in it.
TEAM: Final = "harbor"
#: What was answered in a language model's place, where somebody has recorded it.
_RECORD: Final = "recorded/answers.jsonl"
#: Each run has an agent of its own; the prompts of all runs call it this.
_AGENT_NAME: Final = "Assistant"


class Question(BaseModel):
    """Something that a person asks months later."""

    question: str
    user: HostId
    group: HostId | None = None


class _Listed(BaseModel):
    questions: tuple[Question, ...] = ()
    teachers: dict[str, HostId] = {}


class Talks:
    """The conversations of a directory, and what its `expected.json` says of them: questions, and who teaches where.

    Raises:
        InvalidInputError: there is no conversation, nobody speaks in one, or `expected.json` cannot be read.
    """

    def __init__(self, directory: Path | None = None) -> None:
        directory = directory or Path(str(resources.files("mnemic.examples") / "conversations"))
        self.record = directory / _RECORD
        self.messages = _read_conversations(directory)
        listed = _read_listed(directory)
        self.questions, self._teachers = listed.questions, listed.teachers

    def people(self, session: str | None = None) -> tuple[str, ...]:
        """Who speaks in a session, or in any, in the order of their first words."""
        talks = self.messages.values() if session is None else [self.messages[session]]
        return _people(*talks)

    @cached_property
    def team(self) -> tuple[str, ...]:
        """All who ever speak in a conversation of several people."""
        shared = (self.people(session) for session in self.messages)
        return tuple(sorted({person for people in shared if len(people) > 1 for person in people}))

    def identity(self, agent_id: str, session: str) -> Identity:
        """Whom a session is formed for: who teaches the agent in it, else who speaks first."""
        teacher = self._teachers.get(session)
        person = teacher or self.people(session)[0]
        return Identity(
            agent_id=agent_id,
            user_id=person,
            group_ids=(TEAM,) if person in self.team else (),
            members=tuple(other for other in self.people(session) if other in self.team and other != person),
            session_id=session,
            teaches_agent=teacher is not None,
        )

    async def form(self, memory: Mnemic, agent_id: str, session: str) -> FormedSession:
        """Observes a session and forms it; answers that cannot be used keep no other session waiting."""
        who, said = self.identity(agent_id, session), self.messages[session]
        zone = memory.resources.zone_of(who)
        times: list[datetime] = [local_time(line["time"], zone) for line in said if line.get("time")]
        if times:  # what was said is looked back on from its own day, whenever that is done
            day = max(times).date()
            memory = Mnemic(replace(memory.resources, today=lambda _: day))
        await name_agent(memory, who)
        observed = await memory.observe(who, said, several_speakers=True)
        return await form_session(memory, who, session, observed.accepted)


async def name_agent(memory: Mnemic, who: Identity) -> None:
    """Has prompts call the agent by one name, whatever its id: else no recorded answer would fit."""
    await memory.admin.configure_scope(who, scope_key("agent", who.agent_id), name=_AGENT_NAME)


def _read_conversations(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """The messages by session of all `*.jsonl` files, in the order of their names."""
    conversations: dict[str, list[dict[str, Any]]] = {}
    for line in read_messages(sorted(directory.glob("*.jsonl"))):
        if isinstance(line, FileMessage):
            conversations.setdefault(line.session, []).append(line.fields())
        else:
            say(str(line))
    if not conversations:
        raise InvalidInputError(f"{directory} holds no conversation: put *.jsonl files there, one message a line")
    for session, talk in conversations.items():
        if not _people(talk):
            raise InvalidInputError(f"session {session} names nobody: its messages of role user need an author")
    return conversations


def _people(*talks: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    lines = (line for talk in talks for line in talk if line["role"] == "user" and "author" in line)
    return tuple(dict.fromkeys(line["author"] for line in lines))


def _read_listed(directory: Path) -> _Listed:
    path = directory / "expected.json"
    if not path.exists():
        return _Listed()
    try:
        return _Listed.model_validate_json(path.read_bytes())
    except ValidationError:
        raise InvalidInputError(f"{path} holds no questions: each needs a question and a user") from None
