"""Celery: each worker process opens its own `Mnemic` after the fork.

`celery -A examples.recipes.celery_tasks worker`, from the checkout. The broker here is a folder; use your own.
"""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown

from mnemic import Identity, Mnemic, SyncMnemic

FOLDER = Path(os.environ.get("CELERY_FOLDER", ".celery")).resolve()
FOLDER.mkdir(exist_ok=True)
app = Celery("memory", broker="filesystem://", backend=FOLDER.as_uri())
app.conf.broker_transport_options = {"data_folder_in": FOLDER, "data_folder_out": FOLDER, "control_folder": FOLDER}

_stack = ExitStack()
_opened: list[SyncMnemic] = []


@worker_process_init.connect
def open_memory(**_: Any) -> None:
    """Open the memory of this worker process. One that the parent opened before the fork raises ForkedProcessError."""
    _opened.append(_stack.enter_context(Mnemic.open_sync(background=False)))


@worker_process_shutdown.connect
def close_memory(**_: Any) -> None:
    """Close it when the worker process ends."""
    _stack.close()


@app.task
def form(user_id: str, session_id: str) -> int:
    """Form memories of a session that is over; return the number of its messages."""
    identity = Identity(agent_id="guide", user_id=user_id, session_id=session_id)
    return sum(run.formed for run in _opened[0].form(identity))
