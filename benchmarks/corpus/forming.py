"""Runs every example conversation through the product's own formation."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any
from uuid import UUID, uuid4

from benchmarks.corpus.matching import expectations
from mnemic.models.replay import Replay
from mnemic.service.cli.form import FormedSession
from mnemic.service.cli.talks import TEAM, Talks
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from mnemic.state.settings import Settings
from mnemic.storage.memories import read_drafts as stored_drafts

GROUP = TEAM


@dataclass(frozen=True, kw_only=True)
class Formed:
    """What the corpus became."""

    described: str
    #: Facts and reflections, closed ones included.
    memories: tuple[Memory, ...]
    #: Texts of the model by the ids of the memories of which others get the typed sentence.
    drafts: Mapping[UUID, str]
    #: How texts fared with the validator.
    checks: Mapping[str, int]
    sessions: tuple[FormedSession, ...]


def sessions() -> list[list[dict[str, Any]]]:
    """Return the conversations with a list of expected memories, in order, each a list of messages."""
    folder = resources.files("mnemic.examples").joinpath("conversations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".jsonl"))
    read = [[json.loads(line) for line in folder.joinpath(name).read_text("utf-8").splitlines()] for name in names]
    listed = {fact.session for fact in expectations()[0]}
    return [rows for rows in read if rows[0]["session"] in listed]


async def form_corpus(replay: Replay | None = None, **settings: Any) -> Formed:
    """Forms all sessions, one after the other, under an agent of their own and reads back what was stored.

    What comes of sessions of which nothing is expected is left out.

    Args:
        replay: answers in a model's place; it is told which session is formed.
        settings: of the `Mnemic`.
    """
    agent_id, talks, formed = f"corpus-{uuid4().hex[:8]}", Talks(), list[FormedSession]()
    async with Mnemic.open(settings=Settings(**settings, **replay.settings() if replay else {})) as memory:
        for session in talks.messages:
            if replay:
                replay.session = session
            formed.append(await talks.form(memory, agent_id, session))
        found: dict[UUID, Memory] = {}
        drafts: dict[UUID, str] = {}
        for person in sorted(talks.people()):
            who = Identity(agent_id=agent_id, user_id=person, group_ids=(GROUP,))
            for item in await memory.memories(who, ("fact", "reflection"), with_closed=True):
                if item.source_session_id or item.id not in found:  # only its author sees the session of a shared one
                    found[item.id] = item
            async with memory.resources.database.transaction(who) as tx:
                drafts |= await stored_drafts(tx, found)
        described = memory.admin.describe()
    listed = {fact.session for fact in expectations()[0]}
    checks: Counter[str] = Counter()
    for run in (run for one in formed if one.session in listed for run in one.runs):
        checks.update(run.checks)
    read = listed | {session for session in talks.messages if talks.identity(agent_id, session).teaches_agent}
    memories = tuple(item for item in found.values() if item.source_session_id in read)
    return Formed(described=described, memories=memories, drafts=drafts, checks=checks, sessions=tuple(formed))
