"""Replay recorded answers of a language model with an OpenAI-compatible server on the loopback address.

A record is a file of JSON lines `{"key", "session", "step", "answer"}`. The key stands for the whole request, so that a
request that reads otherwise has no answer; no text of a prompt is in the file.
"""

import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from mnemic.prompts.extraction import KNOWN_LINE
from mnemic.state.errors import ConfigurationError, MnemicError, ModelError

Request = dict[str, Any]
#: Status, content type and body.
Response = tuple[int, str, bytes]

_ASKED: Final = ("messages", "tools", "response_format")
#: Status 410: no client sends the request again.
_NOT_RECORDED: Final = 410


def schema_name(request: Request) -> str | None:
    """The name of the output schema or of the forced tool."""
    if schema := request.get("response_format", {}).get("json_schema"):
        return str(schema["name"])
    choice = request.get("tool_choice")
    return str(choice["function"]["name"]) if isinstance(choice, dict) else None


def completion(
    request: Request, message: dict[str, Any], finish_reason: str | None = None, usage: tuple[int, int] | None = None
) -> dict[str, Any]:
    """A chat completion with one choice."""
    reason = finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return body


def refusal(status: int, code: str, message: str) -> Response:
    """An error as OpenAI's servers send one."""
    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return status, "application/json", json.dumps(body).encode()


class LoopbackServer(ABC):
    """Answers requests in threads of its own; a context manager."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = False  # leaving waits for every answer, so that no thread outlives its run
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @abstractmethod
    def reply_to(self, path: str, request: Request) -> Response:
        """Return the response; ConnectionAbortedError closes the connection instead."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Exchange(NamedTuple):
    """One answer of a record."""

    key: str
    #: The conversation of the request.
    session: str
    #: The name of the output's schema; for a turn with tools, the first words of its prompt.
    step: str
    #: A JSON object as it is, any other text as a string, tool calls as `{"tool_calls": [...], "content": ...}`.
    answer: Any

    def message(self, request: "Request") -> dict[str, Any]:
        """Return the response to this request."""
        if isinstance(self.answer, dict) and "tool_calls" in self.answer:
            return {"role": "assistant", **self.answer}
        numbers = {text: number for number, text in _known(request)}
        answer = _renamed(self.answer, lambda known: numbers.get(known) if isinstance(known, str) else known)
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return {"role": "assistant", "content": text}


def exchange(request: Request, session: str, message: dict[str, Any]) -> Exchange:
    """Return a request and its answer as a record keeps them.

    The stored facts in the request of a decision, and their order, depend on the embedder's last digits, and these on
    the processor. So an answer names stored facts by their words, and they are no part of the key.
    """
    messages = [{**said, "content": KNOWN_LINE.sub("", str(said.get("content")))} for said in request["messages"]]
    asked = json.dumps(
        {**{name: request.get(name) for name in _ASKED}, "messages": messages}, sort_keys=True, ensure_ascii=False
    )
    step = schema_name(request) or " ".join(str(request["messages"][0]["content"]).split()[:6])
    words = dict(_known(request))
    answer = _renamed(answered(message), words.get)
    return Exchange(hashlib.sha256(asked.encode()).hexdigest(), session, step, answer)


def _known(request: Request) -> list[tuple[int, str]]:
    """Return the stored facts in the request of a decision, by their numbers."""
    shown = (match.groups() for said in request["messages"] for match in KNOWN_LINE.finditer(str(said.get("content"))))
    return [(int(number), text) for number, text in shown if number]


def _renamed(answer: Any, name: Callable[[Any], Any]) -> Any:
    """Return an answer with other names for the stored facts; a decision about an unnamed fact is left out."""
    decisions = answer.get("decisions") if isinstance(answer, dict) else None
    if not isinstance(decisions, list) or not all(isinstance(one, dict) for one in decisions):
        return answer
    return {**answer, "decisions": [{**one, "known": _renamed_known(one.get("known"), name)} for one in decisions]}


def _renamed_known(known: Any, name: Callable[[Any], Any]) -> Any:
    """Return the renamed entries of a list; a model may write another value there, which stays as it is."""
    if known is None:
        return []
    if not isinstance(known, list):
        return known
    renamed = [name(old) for old in known if isinstance(old, int | str)]
    return [new for new in renamed if new is not None]


def answered(message: dict[str, Any]) -> Any:
    """Return the answer in a message."""
    text = message.get("content") or ""
    if calls := message.get("tool_calls"):
        return {"tool_calls": calls, "content": text}
    try:
        parsed = json.loads(text)
    except ValueError:
        return text
    return parsed if isinstance(parsed, dict) and "tool_calls" not in parsed else text


def read_record(path: Path) -> list[Exchange]:
    """Read a record from a file.

    Raises:
        ConfigurationError: there is none, or a line of it is no answer.
    """
    try:
        return [Exchange(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{path} holds no record of answers ({type(error).__name__})") from None


class Replay(LoopbackServer):
    """Serve a record. Leaving the block raises if a request was not in the record, even if its error was handled.

    Args:
        record: the answers.
        remedy: advice for the error if an answer is missing.
        otherwise: gives the message for a request that is not in the record, or None.
    """

    def __init__(
        self,
        record: Sequence[Exchange],
        remedy: str,
        otherwise: Callable[[Exchange, Request], dict[str, Any] | None] | None = None,
    ) -> None:
        super().__init__()
        self.session = ""
        #: Requests with their answers, in the order of the answers.
        self.exchanges: list[tuple[Request, Exchange]] = []
        self.missing: Counter[str] = Counter()
        self._record = {known.key: known for known in record}
        self._remedy, self._otherwise = remedy, otherwise

    def settings(self) -> dict[str, Any]:
        """Return settings that use this server as every language model, and the embedder that records are made with."""
        name = "openai:recorded"
        models = {"fast_model": name, "slow_model": name, "base_url": self.base_url, "api_key": "none"}
        return {**models, "structured_output": "json_schema", "embedder": "minilm"}

    def reply_to(self, path: str, request: Request) -> Response:
        """Return the recorded answer, or an error whose remedy is to record again."""
        asked = exchange(request, self.session, {})
        known = self._record.get(asked.key)
        message = known.message(request) if known else self._otherwise and self._otherwise(asked, request)
        if message is None:
            self.missing[asked.step] += 1
            return refusal(_NOT_RECORDED, "not_recorded", self._problem())
        self.exchanges.append((request, exchange(request, self.session, message)))
        return 200, "application/json", json.dumps(completion(request, message)).encode()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self.missing and (error is None or isinstance(error, MnemicError)):
            raise ModelError(self._problem()) from None

    def _problem(self) -> str:
        steps = ", ".join(f"{count} of {step}" for step, count in sorted(self.missing.items()))
        return f"the record has no answer to requests that were made ({steps}): {self._remedy}"


def _handler(server: LoopbackServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            sent = self.rfile.read(length)
            if len(sent) < length:  # the client was killed, or gave up, before the end of its request
                self.close_connection = True
                return
            try:
                status, kind, body = server.reply_to(self.path, json.loads(sent))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if status >= 400:
                    self.send_header("retry-after-ms", "1")  # clients try again at once
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:  # the connection was closed by the answer or by the client
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of http.server
            """Log nothing."""

    return Handler
