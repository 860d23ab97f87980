"""Records what an endpoint answers, and replays it. Where the records are, and how one is made: recorded/README.md."""

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

import httpx

from mnemic.models.loopback import Request
from mnemic.models.replay import Exchange, Replay, exchange, read_record
from mnemic.service.cli.talks import Talks
from mnemic.state.files import open_private

FOLDER: Final = Path(__file__).parent / "recorded"
_REMEDY: Final = "conversations or settings have changed. Record anew with --record-from URL, see recorded/README.md"
#: An endpoint may be a person.
_SECONDS: Final = 6 * 3600


def record_of(name: str) -> Path:
    """Where a record is; that of the conversations ships with them."""
    return Talks().record if name == "conversations" else FOLDER / f"{name}.jsonl"


def add_record_arguments(parser: ArgumentParser) -> None:
    """Add the options that choose a record's replay, or its making."""
    parser.add_argument("--recorded", action="store_true", help="answer from the record")
    parser.add_argument("--record-from", metavar="URL", help="ask this endpoint for what is not in the record")
    parser.add_argument("--record", type=Path, metavar="FILE", help="the record, where it is another one")


def chosen(arguments: Namespace, path: Path) -> Replay | None:
    """As the arguments say; None: neither."""
    if arguments.record_from:
        return Recorder(path, arguments.record_from)
    return Replay(read_record(path), _REMEDY) if arguments.recorded else None


class Recorder(Replay):
    """Asks an endpoint for what is not in the record, and writes each answer down at once: a broken-off run goes on.

    Leaving it drops the answers that were not asked for.
    """

    def __init__(self, path: Path, url: str) -> None:
        super().__init__(read_record(path) if path.exists() else [], "the endpoint did not answer", self._ask)
        self._server.daemon_threads = True  # who breaks off waits for nobody
        self._path, self._url = path, url.rstrip("/")

    def settings(self) -> dict[str, Any]:
        """Return settings that wait for answers that a person writes."""
        return {**super().settings(), "model_timeout_seconds": _SECONDS, "lease_seconds": _SECONDS}

    def find(self, wanted: Exchange) -> Exchange | None:
        """Return the recorded answer for a request, or None if it was recorded with another prompt."""
        recorded = super().find(wanted)
        if recorded is None or recorded.prompt != wanted.prompt:
            return None
        return recorded

    def _ask(self, asked: Exchange, request: Request) -> dict[str, Any]:
        key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
        answer = httpx.post(f"{self._url}/chat/completions", json=request, headers=key, timeout=_SECONDS)
        answer.raise_for_status()
        message: dict[str, Any] = answer.json()["choices"][0]["message"]
        self._write([exchange(request, asked.session, message)], "a")
        return message

    def _write(self, exchanges: Iterable[Exchange], mode: Literal["a", "w"]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(one._asdict(), ensure_ascii=False, separators=(",", ":")) for one in exchanges)
        flags = os.O_WRONLY | (os.O_APPEND if mode == "a" else os.O_TRUNC)
        with os.fdopen(open_private(self._path, flags), mode, encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            self._write({one.key: one for _, one in self.exchanges}.values(), "w")
