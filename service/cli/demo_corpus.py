"""The conversations that `mnemic demo` forms: a directory of JSON lines files, and questions to ask afterwards."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mnemic.service.cli.message_files import Line, Reader
from mnemic.service.cli.terminal import say
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import HostId, Identity

#: Who shares a conversation with several people in it.
TEAM = "harbor"


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One session."""

    session: str
    messages: tuple[dict[str, Any], ...]
    #: The people who speak in it, in the order of their first words.
    people: tuple[str, ...]

    def identity(self, agent_id: str) -> Identity:
        """The first speaker's; a conversation of several people is the team's too."""
        groups = (TEAM,) if len(self.people) > 1 else ()
        return Identity(agent_id=agent_id, user_id=self.people[0], group_ids=groups, session_id=self.session)


class Question(BaseModel):
    """Something that a person asks months later."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    question: str
    user: HostId
    group: HostId | None = None

    def identity(self, agent_id: str) -> Identity:
        """Who asks."""
        groups = (self.group,) if self.group else ()
        return Identity(agent_id=agent_id, user_id=self.user, group_ids=groups)


class _Expected(BaseModel):
    model_config = ConfigDict(extra="ignore")

    questions: tuple[Question, ...] = ()


def example_directory() -> Path:
    """The conversations that come with the package."""
    return Path(str(resources.files("mnemic.examples") / "conversations"))


def read_conversations(directory: Path) -> list[Conversation]:
    """The sessions of all `*.jsonl` files, in the order of their names.

    Raises:
        InvalidInputError: there is none, or nobody speaks in one.
    """
    sessions: dict[str, list[dict[str, Any]]] = {}
    with closing(Reader()) as reader:
        for line in (line for path in sorted(directory.glob("*.jsonl")) for line in reader.read(path)):
            if isinstance(line, Line):
                sessions.setdefault(line.session, []).append(line.message)
            else:
                say(f"{line.file}:{line.line}: {line.reason}")
    if not sessions:
        raise InvalidInputError(f"{directory} holds no conversation: put *.jsonl files there, one message a line")
    return [_conversation(session, messages) for session, messages in sessions.items()]


def _conversation(session: str, messages: Sequence[dict[str, Any]]) -> Conversation:
    people = tuple(dict.fromkeys(m["author"] for m in messages if m["role"] == "user" and "author" in m))
    if not people:
        raise InvalidInputError(f"session {session} names nobody: its messages of role user need an author")
    return Conversation(session=session, messages=tuple(messages), people=people)


def read_questions(directory: Path) -> tuple[Question, ...]:
    """The questions of `expected.json`; none where there is no such file.

    Raises:
        InvalidInputError: the file is not what it should be.
    """
    path = directory / "expected.json"
    if not path.exists():
        return ()
    try:
        return _Expected.model_validate(json.loads(path.read_text(encoding="utf-8"))).questions
    except (ValidationError, ValueError, RecursionError):
        raise InvalidInputError(f"{path} holds no questions: each needs a question and a user") from None
