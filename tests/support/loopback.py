"""An OpenAI-compatible server on the loopback address that answers from a script.

    with LoopbackModel() as server:
        server.answer("ExtractFactsOutput", ExtractFactsOutput(facts=[...]))
        settings = Settings(base_url=server.base_url)

A request is answered by the first route that fits it, not by the order of the calls, since nodes run in parallel.
"""

import base64
import json
import math
import re
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from types import TracebackType
from typing import Any

from pydantic import BaseModel

from mnemic.models.loopback import LoopbackServer, Response, completion, refusal
from mnemic.models.loopback import Request as Request
from mnemic.models.loopback import schema_name as schema_name


def offered(request: Request) -> list[str]:
    """The names of the tools that the model may call."""
    return [str(tool["function"]["name"]) for tool in request.get("tools") or []]


def tool_call(call_id: Any, name: Any, arguments: dict[str, Any] | str) -> dict[str, Any]:
    """One call of a tool, as a message carries it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def events(body: dict[str, Any]) -> bytes:
    """The same completion as server-sent events: one word a chunk, then the end, then the usage."""
    choice = body["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in re.findall(r"\S+\s*|\s+", message.get("content") or "")]
    if calls := message.get("tool_calls"):
        deltas.append({"tool_calls": [{"index": place, **call} for place, call in enumerate(calls)]})
    head = {**{key: body[key] for key in ("id", "created", "model")}, "object": "chat.completion.chunk"}
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if "usage" in body:
        chunks.append({**head, "choices": [], "usage": body["usage"]})
    return b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks) + b"data: [DONE]\n\n"


def bag_of_words(text: str, dimensions: int) -> list[float]:
    """A unit vector in which texts with common words are near one another."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        vector[int.from_bytes(blake2b(word.encode(), digest_size=8).digest()) % dimensions] += 1.0
    length = math.hypot(*vector)
    return [value / length for value in vector]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer with everything that can be said about it."""

    content: str | None = None
    #: Further fields of the message, such as `refusal` or `tool_calls`.
    message: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    #: Tokens in and out.
    usage: tuple[int, int] | None = (100, 10)
    #: The answer is sent once this is set.
    after: threading.Event | None = None


#: Text, a model's instance as JSON, fields of the message, an HTTP status, raw bytes for the whole body, or a function.
Answer = str | BaseModel | dict[str, Any] | int | bytes | Reply | Callable[[Request], Any]
Matcher = str | Callable[[Request], bool]


@dataclass
class _Route:
    fits: Callable[[Request], bool]
    answers: tuple[Answer, ...]
    used: int = 0

    def next(self) -> Answer:
        answer = self.answers[min(self.used, len(self.answers) - 1)]
        self.used += 1
        return answer


class LoopbackModel(LoopbackServer):
    """The server; a context manager. Leaving it fails when a request fitted no route."""

    def __init__(self) -> None:
        super().__init__()
        self.chat_requests: list[Request] = []
        self.embedding_requests: list[Request] = []
        self.problems: list[str] = []
        self._routes: list[_Route] = []
        self._embedding_answer: Answer | None = None
        self._lock = threading.Lock()

    def answer(self, matcher: Matcher, *answers: Answer) -> None:
        """Answers requests that fit with these answers in turn, the last one over and over.

        A text fits by the name of the output schema or forced tool, or by occurring in the messages. A later route
        goes before an earlier one.
        """
        fits = matcher if callable(matcher) else _fits_text(matcher)
        with self._lock:
            self._routes.insert(0, _Route(fits, answers))

    def answer_embeddings(self, answer: Answer | None) -> None:
        """Answer embedding requests: a status, bytes or vectors from a function, or None for hashed words."""
        self._embedding_answer = answer

    def reply_to(self, path: str, request: Request) -> Response:
        """The answer of the first route that fits."""
        try:
            return self._reply_to(path, request)
        except ConnectionAbortedError:  # the script hangs up
            raise
        except Exception as error:  # noqa: BLE001 - a script's mistake must fail the test, not only this thread
            self.problems.append(f"the script failed: {error!r}")
            return _error(400)

    def _reply_to(self, path: str, request: Request) -> Response:
        if path.endswith("/embeddings"):
            self.embedding_requests.append(request)
            return _embedding_reply(self._embedding_answer, request)
        with self._lock:
            self.chat_requests.append(request)
            route = next((route for route in self._routes if route.fits(request)), None)
            answer: Answer = route.next() if route else 400
        if route is None:
            self.problems.append(f"no route for {path} with schema {schema_name(request)}")
        return _chat_reply(answer, request)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            assert not self.problems, self.problems


def offering(tool: str) -> Callable[[Request], bool]:
    """Fits requests that leave it to the model which tools it calls, this one among them."""

    def fits(request: Request) -> bool:
        return schema_name(request) is None and tool in offered(request)

    return fits


def calling(*calls: tuple[str, dict[str, Any] | str], text: str | None = None) -> dict[str, Any]:
    """An answer that calls tools by name: arguments as they are, or as the text that comes over the wire.

        server.answer(offering("complete_refinement"), calling(("protect_memory", {"id": 3})), calling(text="Done."))

    As with some servers the calls of each answer are numbered from 1.
    """
    made = [tool_call(f"call_{number}", name, arguments) for number, (name, arguments) in enumerate(calls, start=1)]
    return {"content": text, "tool_calls": made} if made else {"content": text}


def hang_up(_: Request) -> Answer:
    """An answer that never comes: the connection ends."""
    raise ConnectionAbortedError


def _fits_text(text: str) -> Callable[[Request], bool]:
    def fits(request: Request) -> bool:
        return schema_name(request) == text or any(text in json.dumps(message) for message in request["messages"])

    return fits


def _embedding_reply(answer: Answer | None, request: Request) -> Response:
    """The vectors, or a hashed bag of words for each text, in the encoding asked for."""
    vectors: Any = answer(request) if callable(answer) else answer
    if isinstance(vectors, int):
        return _error(vectors)
    if isinstance(vectors, bytes):
        return 200, _type_of(vectors), vectors
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
    data = []
    for place, vector in enumerate(vectors or [bag_of_words(text, request.get("dimensions", 1536)) for text in texts]):
        packed = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        encoded = packed if request.get("encoding_format") == "base64" else vector
        data.append({"object": "embedding", "index": place, "embedding": encoded})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    made = {"object": "list", "data": data, "model": request["model"], "usage": usage}
    return 200, "application/json", json.dumps(made).encode()


def _chat_reply(answer: Answer, request: Request) -> Response:
    while callable(answer):
        answer = answer(request)
    if isinstance(answer, int):
        return _error(answer)
    if isinstance(answer, bytes):
        return 200, _type_of(answer), answer
    reply = _as_reply(answer, request)
    if reply.after is not None:
        reply.after.wait(timeout=30)
    message = {"role": "assistant", "content": reply.content, **reply.message}
    body = completion(request, message, reply.finish_reason, reply.usage)
    if request.get("stream"):
        if not (request.get("stream_options") or {}).get("include_usage"):
            body.pop("usage", None)  # as servers do, which count a stream for whoever asks them to
        return 200, "text/event-stream", events(body)
    return 200, "application/json", json.dumps(body).encode()


def _type_of(body: bytes) -> str:
    return "application/json" if body[:1] in (b"{", b"[") else "text/html"


def _as_reply(answer: Any, request: Request) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, dict):
        return Reply(message=answer)
    if not isinstance(answer, BaseModel):
        return Reply(content=str(answer))
    text = answer.model_dump_json()
    if "response_format" in request or not request.get("tools"):
        return Reply(content=text)
    return Reply(message={"tool_calls": [tool_call("call_1", schema_name(request), text)]})


def _error(status: int) -> Response:
    return refusal(status, "scripted_code", "scripted failure")
