"""`mnemic threads` finds a person's conversations again, and tells nothing of what was said."""

import asyncio
import json
import shlex

import pytest

from mnemic import Mnemic
from mnemic.state.identity import Identity
from tests.service.cli.conftest import Command
from tests.support.server import Clone
from tests.support.threads import answering, said
from tests.support.worlds import identity

WHO = ("--agent", "harbor", "--user", "ana")
SECRET = "I have moved to Ghent."


@pytest.fixture
def talked(clean_db: Clone) -> None:
    """Ana has talked in two sessions, the older one last, and Bo in one."""

    async def talk() -> None:
        async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
            host = answering(memory.checkpointer())
            for who in (of("ana", "old one"), of("ana", "new"), of("bo", "his"), of("ana", "old one")):
                await host.ainvoke(said(SECRET), memory.thread(who))

    asyncio.run(talk())


def of(user: str, session: str) -> Identity:
    return identity(user, session=session)


def test_ones_own_conversations_are_listed_the_one_that_moved_last_first(mnemic: Command, talked: None) -> None:
    result = mnemic("threads", *WHO)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()[1:]
    assert "old one" in first
    assert "new" in second
    assert shlex.split(result.stderr.rpartition("to go on with the latest: ")[2])[1:] == [
        *("chat", *WHO, "--session", "old one")
    ]
    listed = json.loads(mnemic("threads", *WHO, "--json").stdout)
    assert [one["thread_id"] for one in listed] == ["old one", "new"]
    assert listed[0]["updated_at"] > listed[1]["updated_at"]
    assert SECRET not in result.stdout + result.stderr + json.dumps(listed)


def test_there_may_be_none(mnemic: Command, talked: None) -> None:
    for stranger in (("--agent", "museum", "--user", "ana"), ("--agent", "harbor", "--user", "cy")):
        assert json.loads(mnemic("threads", *stranger, "--json").stdout) == []
        result = mnemic("threads", *stranger)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no conversations\n")
