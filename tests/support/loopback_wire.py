"""The bodies that an OpenAI-compatible server sends."""

import base64
import json
import math
import re
import struct
from hashlib import blake2b
from typing import Any

Request = dict[str, Any]


def schema_name(request: Request) -> str | None:
    """The name of the output schema or of the forced tool."""
    if schema := request.get("response_format", {}).get("json_schema"):
        return str(schema["name"])
    choice = request.get("tool_choice")
    return str(choice["function"]["name"]) if isinstance(choice, dict) else None


def offered(request: Request) -> list[str]:
    """The names of the tools that the model may call."""
    return [str(tool["function"]["name"]) for tool in request.get("tools") or []]


def tool_call(call_id: Any, name: Any, arguments: dict[str, Any] | str) -> dict[str, Any]:
    """One call of a tool, as a message carries it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def completion(
    request: Request, message: dict[str, Any], finish_reason: str | None, usage: tuple[int, int] | None
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


def embeddings_body(request: Request, vectors: list[list[float]] | None) -> dict[str, Any]:
    """An embeddings answer: the vectors, or a hashed bag of words for each text, in the encoding asked for."""
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
    if vectors is None:
        vectors = [bag_of_words(text, request.get("dimensions", 1536)) for text in texts]
    encode = _base64 if request.get("encoding_format") == "base64" else list
    data = [{"object": "embedding", "index": place, "embedding": encode(v)} for place, v in enumerate(vectors)]
    return {
        "object": "list",
        "data": data,
        "model": request["model"],
        "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)},
    }


def bag_of_words(text: str, dimensions: int) -> list[float]:
    """A unit vector in which texts with common words are near one another."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        vector[int.from_bytes(blake2b(word.encode(), digest_size=8).digest()) % dimensions] += 1.0
    length = math.hypot(*vector)
    return [value / length for value in vector]


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
