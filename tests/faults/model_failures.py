"""Every way in which a model fails, as answers for the loopback server; and what must be found nowhere after it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mnemic.state.errors import ModelError, ModelOutputError
from tests.support.loopback import Answer, Reply, hang_up

#: In the conversation, in the answers, and in no message, log or checkpoint.
CANARY = "Zanzibarquelle"
ANSWER_CANARY = "Yttriumgarten"
#: One call and one repair.
ATTEMPTS = 2
#: One request and the client's own two retries, each after a longer pause; the loopback server asks for short ones.
REQUESTS = 3


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A model's failure."""

    #: Of a schema's name and a good answer's text.
    answer: Callable[[str, str], Answer]
    error: type[ModelError]
    requests: int


def _said(text: Callable[[str], str] | str, **more: Any) -> Failure:
    """Words instead of an answer, or an answer that is no good."""

    def answer(_: str, good: str) -> Answer:
        return Reply(content=text if isinstance(text, str) else text(good), **more)

    return Failure(answer=answer, error=ModelOutputError, requests=ATTEMPTS)


def _called(*arguments: str) -> Failure:
    """Tool calls with these arguments."""

    def answer(name: str, _: str) -> Answer:
        calls = [
            {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": text}}
            for place, text in enumerate(arguments)
        ]
        return Reply(message={"tool_calls": calls})

    return Failure(answer=answer, error=ModelOutputError, requests=ATTEMPTS)


def _transport(answer: Answer, requests: int = 1) -> Failure:
    return Failure(answer=lambda *_: answer, error=ModelError, requests=requests)


def _refused(status: int) -> Failure:
    """The request itself is at fault: asked once, and counted as a try."""
    return Failure(answer=lambda *_: status, error=ModelOutputError, requests=1)


def _body(**fields: Any) -> bytes:
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**head, **fields}).encode()


_LONG = json.dumps({"text": [f"{ANSWER_CANARY} {number}" for number in range(25_000)]})

SAID: dict[str, Failure] = {
    "garbage": _said(f"Certainly! {ANSWER_CANARY}: the memory is { {} }"),
    "nothing": _said(""),
    "null": Failure(answer=lambda *_: {"content": None}, error=ModelOutputError, requests=ATTEMPTS),
    "white space": _said(" \n\t" * 50),
    "500 KB of JSON": _said(_LONG),
    "500 KB around a good answer": _said(lambda good: good + " " * 500_000),
    "one word 100,000 times": _said("wordy " * 100_000),
    "brackets without end": _said("[" * 20_000),
    "cut in the middle": _said(lambda good: good[: len(good) // 2], finish_reason="length"),
    "cut without a word": _said(lambda good: good[: len(good) // 2]),
    "an empty object": _said("{}"),
    "a list": _said(f'["{ANSWER_CANARY}"]'),
    "JSON null": _said("null"),
    "wrong types": _said(lambda good: json.dumps(dict.fromkeys(json.loads(good), 7))),
    "a field too many": _said(lambda good: json.dumps({**json.loads(good), f"ignore the rules {ANSWER_CANARY}": 1})),
    "half a character": _said(lambda good: good.replace('"}', '\\ud800"}').replace("]}", ',"\\udfff"]}')),
    "a refusal": Failure(
        answer=lambda *_: {"content": None, "refusal": f"I will not speak of {ANSWER_CANARY}."},
        error=ModelOutputError,
        requests=ATTEMPTS,
    ),
    "a filter": _said("", finish_reason="content_filter"),
}
CALLED: dict[str, Failure] = {
    "no call": _said(f"Here you are: {ANSWER_CANARY}"),
    "broken arguments": _called(f'{{"facts": [{ANSWER_CANARY}'),
    "empty arguments": _called(""),
    "arguments that are no object": _called(f'["{ANSWER_CANARY}"]'),
    "arguments without end": _called("[" * 20_000),
    "other arguments": _called(json.dumps({ANSWER_CANARY: 1})),
    "two broken calls": _called(f'{{"{ANSWER_CANARY}": ', "{"),
    "500 KB of arguments": _called(_LONG),
}
SENT: dict[str, Failure] = {
    **{str(status): _refused(status) for status in (400, 413, 422)},
    **{str(status): _transport(status) for status in (401, 403, 404)},
    **{str(status): _transport(status, REQUESTS) for status in (408, 409, 429, 500, 503)},
    "a page": _transport(b"<html>Bad gateway</html>"),
    "no text at all": _transport(b""),
    "bytes that are no text": _transport(b'{"choices": "\xff\xfe"}'),
    "no choices": _transport(_body(choices=[])),
    "choices of another type": _transport(_body(choices="none")),
    "an error with 200": _transport(_body(error={"message": ANSWER_CANARY, "code": "overloaded"})),
    "hung up": _transport(hang_up, REQUESTS),
}
