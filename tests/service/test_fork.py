"""A worker that was forked from the process that opened Mnemic is told to open its own, and the parent goes on."""

import os
import subprocess
import sys

from tests.support.server import Clone

#: As a server that loads the application before it forks its workers (`gunicorn --preload`).
PRELOADING = """
import asyncio, os, sys, traceback
from mnemic import Identity, Mnemic, Settings
from mnemic.state.errors import ForkedProcessError

ANA = Identity(agent_id="guide", user_id="ana", session_id="s1", role="owner")
opening = Mnemic.open(embedder="hash", settings=Settings(pool_size=2))
loop = asyncio.new_event_loop()
memory = loop.run_until_complete(opening.__aenter__())
loop.run_until_complete(memory.remember(ANA, "Ana moors at pier 4.", category="profile"))

async def lines():
    return [line async for line in memory.privacy.export_audit(ANA)]

def outcome(call):
    try:
        return repr(call())
    except ForkedProcessError:
        return "forked"
    except BaseException as error:
        return "".join(traceback.format_exception(error))

worker = os.fork()
if not worker:
    calls = {
        "query": lambda: asyncio.run(memory.query(ANA, "pier")),
        "memories": lambda: asyncio.run(memory.memories(ANA)),
        "recall": lambda: asyncio.run(memory.recall(ANA, "Where do I moor?", search="always")),
        "remember": lambda: asyncio.run(memory.remember(ANA, "Ana sails.", category="profile")),
        "observe": lambda: asyncio.run(memory.observe(ANA, [{"role": "user", "content": "Hello."}])),
        "form": lambda: asyncio.run(memory.form(ANA)),
        "form_later": lambda: asyncio.run(memory.admin.form_later(ANA)),
        "threads": lambda: asyncio.run(memory.threads.list(ANA)),
        "export": lambda: asyncio.run(lines()),
        "on the loop of the parent": lambda: memory.graphs.recall.invoke({}, context=ANA),
    }
    for name, call in calls.items():
        if (found := outcome(call)) != "forked":
            print(name, found, file=sys.stderr)
            os._exit(1)
    os._exit(0)
assert os.waitpid(worker, 0)[1] == 0
assert [row.content for row in loop.run_until_complete(memory.memories(ANA))] == ["Ana moors at pier 4."]
loop.run_until_complete(opening.__aexit__(None, None, None))
"""


def test_a_forked_worker_is_told_to_open_its_own(clean_db: Clone) -> None:
    environment = {**os.environ, "MNEMIC_DATABASE_URL": clean_db.service_dsn}
    command = [sys.executable, "-c", PRELOADING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


#: The same with a memory whose loop is in a thread, which no fork has. The fork leaves the block, too.
FORKING = """
import os, sys
from mnemic import Identity, Mnemic, Settings
from mnemic.state.errors import ForkedProcessError

ANA = Identity(agent_id="guide", user_id="ana", session_id="s1")
with Mnemic.open_sync(embedder="hash", settings=Settings(pool_size=2)) as memory:
    agent = memory.graphs.supervisor(memory.threads.checkpointer())
    calls = [
        lambda: memory.query(ANA, "pier"),
        lambda: memory.threads.checkpointer(),
        lambda: memory.graphs.recall.invoke({}, context=ANA),
        lambda: agent.invoke({"messages": "Hello."}, memory.threads.config(ANA), context=ANA),
        lambda: memory.middleware().before_agent({"messages": []}, None),
    ]
    worker = os.fork()
    if not worker:
        for number, call in enumerate(calls):
            try:
                print(number, repr(call()), file=sys.stderr)
                os._exit(1)
            except ForkedProcessError:
                pass
if not worker:
    os._exit(0)
sys.exit(os.waitpid(worker, 0)[1])
"""


def test_a_fork_of_a_synchronous_one_is_told_so_too_and_leaves_its_block(clean_db: Clone) -> None:
    environment = {**os.environ, "MNEMIC_DATABASE_URL": clean_db.service_dsn}
    command = [sys.executable, "-c", FORKING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
