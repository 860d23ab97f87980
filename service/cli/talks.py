"""Conversations in a directory, their questions, and the identities that they are formed for."""

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

#: Group of the people in conversations of several people.
TEAM: Final = "harbor"
#: Recorded answers, relative to the directory.
_RECORD: Final = "recorded/answers.jsonl"
#: Name of the agent in the prompts of all runs; each run has an agent of its own.
_AGENT_NAME: Final = "Assistant"


class Question(BaseModel):
    """A question of a person, months later."""

    question: str
    user: HostId
    group: HostId | None = None


class _Listed(BaseModel):
    questions: tuple[Question, ...] = ()
    teachers: dict[str, HostId] = {}


class Talks:
    """The conversations of a directory, with the questions and the teachers in its `expected.json`.

    Raises:
        InvalidInputError: if there is no conversation, one has no author, or `expected.json` cannot be read.
    """

    def __init__(self, directory: Path | None = None) -> None:
        directory = directory or Path(str(resources.files("mnemic.examples") / "conversations"))
        self.record = directory / _RECORD
        self.messages = _read_conversations(directory)
        listed = _read_listed(directory)
        self.questions, self._teachers = listed.questions, listed.teachers

    def people(self, session: str | None = None) -> tuple[str, ...]:
        """Return the people of a session, or of all sessions, in the order of their first messages."""
        talks = self.messages.values() if session is None else [self.messages[session]]
        return _people(*talks)

    @cached_property
    def team(self) -> tuple[str, ...]:
        """All people of conversations of several people."""
        team: set[str] = set()
        for session in self.messages:
            people = self.people(session)
            if len(people) > 1:
                team.update(people)
        return tuple(sorted(team))

    def identity(self, agent_id: str, session: str) -> Identity:
        """Return the identity of a session: its teacher, else its first speaker."""
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
        """Observe and form a session; unusable answers end this session only."""
        identity, messages = self.identity(agent_id, session), self.messages[session]
        zone = memory.resources.zone_of(identity)
        times: list[datetime] = [local_time(message["time"], zone) for message in messages if message.get("time")]
        if times:  # the current day of the session is that of its last message
            day = max(times).date()
            memory = Mnemic(replace(memory.resources, today=lambda _: day))
        await name_agent(memory, identity)
        observed = await memory.observe(identity, messages, several_speakers=True)
        return await form_session(memory, identity, session, observed.accepted)


async def name_agent(memory: Mnemic, identity: Identity) -> None:
    """Give the agent the name of the recorded prompts, since its id differs in each run."""
    await memory.admin.configure_scope(identity, scope_key("agent", identity.agent_id), name=_AGENT_NAME)


def _read_conversations(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the messages of all `*.jsonl` files by session, in the order of the files' names."""
    conversations: dict[str, list[dict[str, Any]]] = {}
    for line in read_messages(sorted(directory.glob("*.jsonl"))):
        if isinstance(line, FileMessage):
            conversations.setdefault(line.session, []).append(line.fields())
        else:
            say(str(line))
    if not conversations:
        raise InvalidInputError(f"{directory} has no conversation: add *.jsonl files with one message a line")
    for session, talk in conversations.items():
        if not _people(talk):
            raise InvalidInputError(f"session {session} has no author: its messages of role user need one")
    return conversations


def _people(*talks: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    people: dict[str, None] = {}
    for talk in talks:
        for message in talk:
            if message["role"] == "user" and "author" in message:
                people[message["author"]] = None
    return tuple(people)


def _read_listed(directory: Path) -> _Listed:
    path = directory / "expected.json"
    if not path.exists():
        return _Listed()
    try:
        return _Listed.model_validate_json(path.read_bytes())
    except ValidationError:
        raise InvalidInputError(f"{path} is not valid: each question needs a question and a user") from None
