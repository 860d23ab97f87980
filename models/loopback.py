"""An OpenAI-compatible server on the loopback address, for recorded and scripted answers."""

import json
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Request = dict[str, Any]
#: Status, content type and body.
Response = tuple[int, str, bytes]


def schema_name(request: Request) -> str | None:
    """Return the name of the output schema or of the forced tool."""
    if schema := request.get("response_format", {}).get("json_schema"):
        return str(schema["name"])
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        return str(choice["function"]["name"])
    return None


def completion(
    request: Request, message: dict[str, Any], finish_reason: str | None = None, usage: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Return a chat completion with one choice.

    Args:
        request: the request that is answered.
        message: the message of the choice.
        finish_reason: the reason of the end; by default the one that fits the message.
        usage: input and output tokens; None leaves the usage out.
    """
    if finish_reason is None:
        finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return body


def refusal(status: int, code: str, message: str) -> Response:
    """Return an error in the form of OpenAI's servers."""
    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return status, "application/json", json.dumps(body).encode()


class LoopbackServer(ABC):
    """Server with a thread for each request; a context manager."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = False  # leaving waits for every answer, so that no thread outlives its run
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @abstractmethod
    def reply_to(self, path: str, request: Request) -> Response:
        """Return the response.

        Raises:
            ConnectionAbortedError: if the connection is to be closed without a response.
        """

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(server: LoopbackServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            sent = self.rfile.read(length)
            if len(sent) < length:  # the client ended before it had sent the whole request
                self.close_connection = True
                return
            try:
                status, kind, body = server.reply_to(self.path, json.loads(sent))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if status >= 400:
                    self.send_header("retry-after-ms", "1")  # clients retry at once
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:  # `reply_to` or the client closed the connection
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of http.server
            """Log nothing."""

    return Handler
