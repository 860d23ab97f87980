"""Replay recorded answers of a language model.

A record is a file of JSON lines `{"key", "session", "step", "prompt", "answer"}`. The key is a digest of the step and
its input, not of the prompt's text: an answer is replayed after a change of the prompt, with a note. `prompt` is the
digest of the prompt that the answer was recorded with. The file contains no text of a request.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple

from mnemic.memory.text.shape import count_tokens
from mnemic.models.loopback import LoopbackServer, Request, Response, completion, refusal, schema_name
from mnemic.prompts.background.insights import INSIGHTS
from mnemic.prompts.background.judge_pairs import JUDGE_PAIRS
from mnemic.prompts.background.propagate import PROPAGATE
from mnemic.prompts.consolidation.write_consolidation import WRITE_CONSOLIDATION
from mnemic.prompts.formation.decide import DECIDE, KNOWN_LINE
from mnemic.prompts.formation.extraction import EXTRACT_FACTS, EXTRACT_OBSERVATIONS, EXTRACT_REFLECTIONS
from mnemic.prompts.loader import Step
from mnemic.state.errors import ConfigurationError, MnemicError, ModelError

#: Steps with structured output, by the name of the schema in a request.
_STEPS: Final = MappingProxyType(
    {
        step.output.__name__: step
        for step in (
            *(EXTRACT_FACTS, EXTRACT_REFLECTIONS, EXTRACT_OBSERVATIONS, DECIDE),
            *(WRITE_CONSOLIDATION, JUDGE_PAIRS, PROPAGATE, INSIGHTS),
        )
    }
)
#: Step of a request with tools.
TURN: Final = "turn"
#: Parts of a request with tools that a model reads.
_PARTS_OF_TURN: Final = ("messages", "tools", "response_format")
#: Characters of a digest of a prompt.
_PROMPT_DIGEST_CHARS: Final = 16
#: Status 410: clients do not retry.
_NOT_RECORDED: Final = 410


class Exchange(NamedTuple):
    """One answer of a record."""

    #: Digest of the step and its input.
    key: str
    #: Session of the request.
    session: str
    #: Name of the step.
    step: str
    #: Digest of the prompt and its output schema.
    prompt: str
    #: A JSON object as it is, any other text as a string, tool calls as `{"tool_calls": [...], "content": ...}`.
    answer: Any

    def message(self, request: Request) -> dict[str, Any]:
        """Return the response to this request."""
        if isinstance(self.answer, dict) and "tool_calls" in self.answer:
            return {"role": "assistant", **self.answer}
        answer = _with_numbers(self.answer, _known_facts(request))
        if not isinstance(answer, str):
            answer = json.dumps(answer, ensure_ascii=False)
        return {"role": "assistant", "content": answer}


def exchange(request: Request, session: str, message: dict[str, Any]) -> Exchange:
    """Return a request and its answer in the form of a record.

    The stored facts in the request of a decision, and their order, depend on the last digits of the embedder's vectors,
    and these depend on the processor. So the key leaves the stored facts out, and the answer refers to them by text.
    """
    answer = _with_texts(answer_of(message), _known_facts(request))
    step = _STEPS.get(schema_name(request) or "")
    if step is None:
        parts = {name: request.get(name) for name in _PARTS_OF_TURN}
        prompt = [request["messages"][0].get("content"), request.get("tools")]
        return Exchange(_digest(parts), session, TURN, _digest(prompt)[:_PROMPT_DIGEST_CHARS], answer)
    name = step.prompt.name
    return Exchange(_digest([name, _input_of(request, step)]), session, name, _prompt_digest(step), answer)


def answer_of(message: dict[str, Any]) -> Any:
    """Return the answer in a message: a JSON object, a text, or tool calls."""
    text = message.get("content") or ""
    if calls := message.get("tool_calls"):
        return {"tool_calls": calls, "content": text}
    try:
        parsed = json.loads(text)
    except ValueError:
        return text
    if isinstance(parsed, dict) and "tool_calls" not in parsed:
        return parsed
    return text


def read_record(path: Path) -> list[Exchange]:
    """Read a record from a file.

    Raises:
        ConfigurationError: if the file is missing, or one of its lines is no recorded answer.
    """
    try:
        return [Exchange(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{path} is no record of answers ({type(error).__name__})") from None


class Replay(LoopbackServer):
    """Server of a record. Leaving the block raises if a request was not in the record, even if its error was handled.

    Args:
        record: the answers.
        remedy: advice for the error if an answer is missing.
        otherwise: returns the message for a request that is not in the record, or None.
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
        #: Number of requests without an answer, by step.
        self.missing: Counter[str] = Counter()
        #: Number of answers that were recorded with another prompt, by step.
        self.other_prompts: Counter[str] = Counter()
        self._record = {recorded.key: recorded for recorded in record}
        self._remedy, self._otherwise = remedy, otherwise

    def settings(self) -> dict[str, Any]:
        """Return settings that use this server as every language model, and the embedder that records are made with."""
        name = "openai:recorded"
        models = {"fast_model": name, "slow_model": name, "base_url": self.base_url, "api_key": "none"}
        # insights are drawn in the background every quarter of an hour, and no record has answers for them
        return {**models, "structured_output": "json_schema", "embedder": "minilm", "insights": False}

    def notes(self) -> list[str]:
        """Return a line for each step with answers that were recorded with another prompt."""
        return [
            f"{step}: {count} of the answers were recorded with another prompt"
            for step, count in sorted(self.other_prompts.items())
        ]

    def find(self, wanted: Exchange) -> Exchange | None:
        """Return the recorded answer for the step and the input of a request, or None."""
        return self._record.get(wanted.key)

    def reply_to(self, path: str, request: Request) -> Response:
        """Return the recorded answer, or an error with the remedy."""
        wanted = exchange(request, self.session, {})
        message: dict[str, Any] | None = None
        if recorded := self.find(wanted):
            message = recorded.message(request)
            if recorded.prompt != wanted.prompt:
                self.other_prompts[wanted.step] += 1
        elif self._otherwise:
            message = self._otherwise(wanted, request)
        if message is None:
            self.missing[wanted.step] += 1
            return refusal(_NOT_RECORDED, "not_recorded", self._problem())
        self.exchanges.append((request, exchange(request, self.session, message)))
        return (
            200,
            "application/json",
            json.dumps(completion(request, message, usage=_usage(request, message))).encode(),
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self.missing and (error is None or isinstance(error, MnemicError)):
            raise ModelError(self._problem()) from None

    def _problem(self) -> str:
        steps = ", ".join(f"{count} of {step}" for step, count in sorted(self.missing.items()))
        return f"the record has no answer to requests with this input ({steps}): {self._remedy}"


def _usage(request: Request, message: dict[str, Any]) -> tuple[int, int]:
    """Return estimates of the tokens that a provider would count for a request and its answer."""
    return count_tokens(json.dumps(request["messages"], ensure_ascii=False)), count_tokens(json.dumps(message))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@cache
def _prompt_digest(step: Step[Any, Any]) -> str:
    prompt = [step.prompt.system, step.prompt.user, step.output.model_json_schema()]
    return _digest(prompt)[:_PROMPT_DIGEST_CHARS]


def _input_of(request: Request, step: Step[Any, Any]) -> list[Any]:
    """Return the values in the user message of a step, and the number of the attempt: 0, or 1 for a repair."""
    _, message, *repairs = request["messages"]
    text = KNOWN_LINE.sub("", str(message.get("content")))
    return [step.prompt.read_values(text) or text, len(repairs)]


def _known_facts(request: Request) -> dict[int, str]:
    """Return the stored facts in the request of a decision, by their numbers."""
    texts: dict[int, str] = {}
    for message in request["messages"]:
        for match in KNOWN_LINE.finditer(str(message.get("content"))):
            number, text = match.groups()
            if number:
                texts[int(number)] = text
    return texts


def _with_texts(answer: Any, texts: dict[int, str]) -> Any:
    """Return an answer whose decisions refer to stored facts by text instead of number."""

    def text_of(known: Any) -> Any:
        return texts.get(known) if isinstance(known, int) else None

    return _renamed(answer, text_of)


def _with_numbers(answer: Any, texts: dict[int, str]) -> Any:
    """Return an answer whose decisions refer to stored facts by number instead of text."""
    numbers = {text: number for number, text in texts.items()}

    def number_of(known: Any) -> Any:
        return numbers.get(known) if isinstance(known, str) else known

    return _renamed(answer, number_of)


def _renamed(answer: Any, rename: Callable[[Any], Any]) -> Any:
    """Return an answer with other references to stored facts; a reference to a missing fact is left out."""
    decisions = answer.get("decisions") if isinstance(answer, dict) else None
    if not isinstance(decisions, list) or not all(isinstance(decision, dict) for decision in decisions):
        return answer
    renamed = [{**decision, "known": _renamed_known(decision.get("known"), rename)} for decision in decisions]
    return {**answer, "decisions": renamed}


def _renamed_known(known: Any, rename: Callable[[Any], Any]) -> Any:
    """Return the renamed entries of a list; a value that is no list stays as it is."""
    if known is None:
        return []
    if not isinstance(known, list):
        return known
    renamed: list[Any] = []
    for reference in known:
        new = rename(reference) if isinstance(reference, int | str) else None
        if new is not None:
            renamed.append(new)
    return renamed
