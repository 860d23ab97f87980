"""The ways in which an endpoint fails, each as the bytes it sends."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

#: Where in the service the fault strikes: a formation's first step, its vectors, or a streamed answer of the agent.
Place = Literal["form", "embed", "answer"]
#: Of a good answer's body: what is sent, piece by piece. None: the connection is closed at once.
Sends = Callable[[bytes], AsyncIterator[bytes]]
#: Said in no answer of ours, whatever an endpoint says.
CANARY: Final = "Zanzibarquelle"
_DRIP_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Fault:
    """One way to fail."""

    name: str
    place: Place
    sends: Sends | None
    #: A part of what is read.
    told: str
    #: Nothing listens.
    away: bool = False


def http(status: int, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    """Send a whole response."""
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def _once(*pieces: bytes, then: float = 0) -> Sends:
    """Send these pieces, and nothing after them."""

    async def send(_: bytes) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        await asyncio.sleep(then)

    return send


def _of(change: Callable[[bytes], bytes]) -> Sends:
    """Send a changed form of the good body, with status 200."""

    async def send(good: bytes) -> AsyncIterator[bytes]:
        yield http(200, change(good))

    return send


def _for_ever(head: bytes, piece: bytes) -> Sends:
    async def send(_: bytes) -> AsyncIterator[bytes]:
        yield head
        while True:
            yield piece
            await asyncio.sleep(_DRIP_SECONDS)

    return send


def _error(code: str | None = "scripted", **more: Any) -> bytes:
    return json.dumps({"error": {"message": CANARY, "code": code, **more}}).encode()


def _status(status: int, told: str, name: str = "", body: bytes | None = None, more: str = "") -> Fault:
    page = body is not None and body.startswith(b"<")
    kind = "text/html" if page else "application/json"
    sent = http(status, _error() if body is None else body, kind, f"Retry-After: 0\r\n{more}")
    return Fault(f"HTTP {status}{name and f', {name}'}", "form", _once(sent), told)


def _content(change: Callable[[dict[str, Any]], object]) -> Sends:
    def changed(good: bytes) -> bytes:
        body = json.loads(good)
        change(body)
        return json.dumps(body).encode()

    return _of(changed)


def _says(text: object) -> Sends:
    return _content(lambda body: body["choices"][0]["message"].update(content=text))


def _vectors(change: Callable[[list[dict[str, Any]]], object]) -> Sends:
    return _content(lambda body: change(body["data"]))


def _event(data: str) -> bytes:
    """Return a server-sent event as a chunk of a body."""
    return f"{len(data) + 8:x}\r\ndata: {data}\n\n\r\n".encode()


_PAGE: Final = f"<html>{CANARY}</html>".encode()
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
_CHUNKED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n"
_STREAM: Final = _CHUNKED % b"text/event-stream\r\nTransfer-Encoding: chunked"
_TOKEN: Final = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "and "}}],
}
_EVENT: Final = _event(json.dumps(_TOKEN))
_ADDRESS: Final = "MNEMIC_BASE_URL"

FAULTS: Final = (
    _status(400, "MNEMIC_STRUCTURED_OUTPUT"),
    _status(401, "MNEMIC_API_KEY"),
    _status(402, "top the account up"),
    _status(403, "MNEMIC_API_KEY"),
    _status(404, _ADDRESS, "a web server's page", _PAGE),
    _status(404, _ADDRESS, "another API", b'{"detail": "Not Found"}'),
    _status(404, "MNEMIC_FAST_MODEL", "model_not_found", _error("model_not_found")),
    _status(404, "MNEMIC_FAST_MODEL", "in the API's own form", _error(None)),
    _status(405, _ADDRESS),
    _status(408, "MNEMIC_MODEL_TIMEOUT_SECONDS"),
    _status(409, "server error"),
    _status(413, "MNEMIC_FORMATION_BATCH_TOKENS"),
    _status(422, "MNEMIC_STRUCTURED_OUTPUT"),
    _status(429, "wait"),
    _status(429, "top the account up", "insufficient_quota", _error("insufficient_quota")),
    _status(429, "wait", "a page", _PAGE),
    _status(500, "look at its log"),
    _status(502, "look at its log", "a proxy's page", _PAGE),
    _status(503, "look at its log"),
    _status(504, "look at its log"),
    _status(529, "look at its log", "overloaded", _error("overloaded")),
    Fault("nothing listens", "form", None, _ADDRESS, away=True),
    Fault("closes at once", "form", None, "no connection"),
    Fault("closes after half of the head", "form", _once(b"HTTP/1.1 200 OK\r\nContent-"), "no connection"),
    Fault("closes in the middle of the body", "form", _once(_HEAD + b'{"id": "c", '), "no connection"),
    Fault("takes the request and is silent", "form", _once(then=60), "MNEMIC_MODEL_TIMEOUT_SECONDS"),
    Fault("silent in the middle of the body", "form", _once(_HEAD, b'{"id"', then=60), "MNEMIC_MODEL_TIMEOUT_SECONDS"),
    Fault("a byte now and then, for ever", "form", _for_ever(_CHUNKED % b"application/json", b" "), "DEADLINE"),
    Fault(
        "sends itself round in circles", "form", _once(http(302, b"", more="Location: /v1/chat/completions\r\n")), ""
    ),
    Fault("speaks no HTTP", "form", _once(b"SSH-2.0-OpenSSH_9.2\r\n"), "no connection"),
    Fault("a page with HTTP 200", "form", _once(http(200, _PAGE, "text/html")), _ADDRESS),
    Fault("nothing with HTTP 200", "form", _once(http(200, b"")), _ADDRESS),
    Fault("broken JSON with HTTP 200", "form", _of(lambda good: good[:-9]), _ADDRESS),
    Fault("`null`", "form", _once(http(200, b"null")), _ADDRESS),
    Fault("a list", "form", _once(http(200, b"[]")), _ADDRESS),
    Fault("an error with HTTP 200", "form", _once(http(200, _error())), ""),
    Fault("no choices", "form", _content(lambda body: body.update(choices=[])), _ADDRESS),
    Fault("choices that are none", "form", _content(lambda body: body.update(choices=CANARY)), _ADDRESS),
    Fault("an empty answer", "form", _says(""), "twice: an empty answer"),
    Fault("no content", "form", _says(None), "twice: an empty answer"),
    Fault("prose in the place of JSON", "form", _says(f"I think that {CANARY}."), "twice: broken JSON"),
    Fault("half of the JSON", "form", _says('{"facts": [{"content": "'), "twice: broken JSON"),
    Fault("JSON of another form", "form", _says('{"memories": []}'), "twice: it broke the schema"),
    Fault("one thing repeated, 500 KB", "form", _says(f"{CANARY} " * 33_000), "twice: far too long"),
    Fault("another number of vectors", "embed", _vectors(lambda data: data.append(data[0])), "vectors for"),
    Fault("vectors of another length", "embed", _vectors(lambda data: data[0]["embedding"].pop()), "DIMENSIONS"),
    Fault("a vector of zeros", "embed", _vectors(lambda data: data[0].update(embedding=[0.0] * 8)), "zero vector"),
    Fault("vectors of words", "embed", _vectors(lambda data: data[0].update(embedding=["x"] * 8)), "numbers"),
    Fault("HTTP 400 for vectors", "embed", _once(http(400, _error())), "MNEMIC_EMBEDDER"),
    Fault("HTTP 503 for vectors", "embed", _once(http(503, _error(), more="Retry-After: 0\r\n")), "look at its log"),
    Fault("a stream that ends in the middle", "answer", _once(_STREAM + _EVENT + b"40\r\ndata: {"), "no connection"),
    Fault("an error in a stream", "answer", _once(_STREAM + _EVENT + _event(_error().decode())), ""),
    Fault("a stream without an end", "answer", _for_ever(_STREAM, _EVENT), "DEADLINE"),
    Fault("a stream that stands still", "answer", _once(_STREAM, _EVENT, then=60), "TIMEOUT"),
    Fault("a page for a stream", "answer", _once(http(200, _PAGE, "text/html")), ""),
)


def good_body(path: str, request: Mapping[str, Any], answers: Mapping[str, str]) -> bytes:
    """Return the answer of a healthy endpoint, by the name of the requested schema."""
    if path.endswith("/embeddings"):
        vectors = [
            {"object": "embedding", "index": place, "embedding": [1.0, 0.1 * place, *[0.0] * 6]}
            for place in range(len(request["input"]))
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return json.dumps({"object": "list", "model": "m", "data": vectors, "usage": usage}).encode()
    schema = request.get("response_format", {}).get("json_schema", {}).get("name", "")
    message = {"role": "assistant", "content": answers.get(schema, "I see.")}
    choice = {"index": 0, "message": message, "delta": message, "finish_reason": "stop"}
    kind = "chat.completion.chunk" if request.get("stream") else "chat.completion"
    return json.dumps({"id": "c", "object": kind, "created": 1, "model": "m", "choices": [choice]}).encode()
