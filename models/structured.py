"""Run steps with structured output: one repair mends a wrong answer; a second wrong answer is a typed failure."""

import inspect
import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableSequence
from pydantic import ValidationError

from mnemic.models.answers import Bound, StepResult, ask, is_unreasonable
from mnemic.models.chat import ChatModels, offline
from mnemic.models.reading import Record, candidates, read_record, without_thoughts
from mnemic.prompts.formation.extraction import ExtractionInput, offering
from mnemic.prompts.loader import In, Step, StepOutput
from mnemic.prompts.repair import AS_JSON, BROKE_SCHEMA, BROKEN, EMPTY, REPAIR, UNREASONABLE, ValidationIssue
from mnemic.state.errors import ConfigurationError, ModelOutputError
from mnemic.state.worker_threads import in_thread

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel  # 30 ms that the offline rules never need; a test holds it

#: Schema problems named in the repair; more of them would not help the model.
MAX_NAMED_PROBLEMS = 5

_LEFT = "the messages stay pending"
#: Replaces arguments that are no JSON.
_UNREADABLE = "{"
_CHECK = "A wrong model or way of structured output looks the same: check MNEMIC_STRUCTURED_OUTPUT"


async def run_step(
    step: Step[In, Record],
    step_input: In,
    models: ChatModels,
    check: Callable[[Record], ValidationIssue | None] | None = None,
) -> StepResult[Record]:
    """Run a step with the model of its tier, or by its rule if there is none, and count its one or two calls.

    A configured model that fails is never replaced by the rule.

    Args:
        step: the step.
        step_input: its input.
        models: the configured models.
        check: finds flaws that the schema cannot express; they are repaired and raised like any other. A partial answer
            is returned if its repair brings no better one. The output of a rule is not checked.

    Raises:
        ModelError: if no answer arrived; the message names the kind of failure.
        ModelOutputError: if the answer stayed unusable after one repair, or the provider refused the request itself.
        ConfigurationError: if the tier's model cannot be made, or its provider has no structured output.
    """
    call = await models.for_call(step.tier, step.prompt.name)
    spent, method = call.spent, models.settings.structured_output
    if call.model is None:
        # a tenth of a second for a full batch, which must not block the event loop
        return StepResult(await in_thread(await offline("steps", step.prompt.name), step_input), spent)
    schema, messages = _schema(step, step_input), step.messages(step_input)
    bound: Bound = call.model
    if method == "text":  # in the same message: some models refuse two user messages in a row
        messages[-1] = HumanMessage(f"{messages[-1].text}\n\n{AS_JSON.format(schema=schema)}")
    else:
        bound = _bind(call.model, json.loads(schema), method)
    repairs = 0
    partial: Record | None = None
    while True:
        answer, flaw, spent = await ask(call, bound, messages, spent, left=_LEFT, check=_CHECK)
        result = flaw or _read(answer, step.output, is_last=bool(repairs))
        if not isinstance(result, ValidationIssue):
            issue = check(result) if check else None
            if not issue:
                return StepResult(result, spent)
            if issue.is_partial:
                partial = result
            result = issue
        if repairs and partial is not None:
            return StepResult(partial, spent)
        if repairs:
            raise ModelOutputError(
                f"{spent.model} gave no usable answer for {spent.step}, twice: {result.kind}; {_LEFT}. "
                f"If that goes on, use another {call.endpoint.setting} or MNEMIC_STRUCTURED_OUTPUT",
                spent=spent,
            )
        messages, repairs = [*messages, HumanMessage(REPAIR.format(advice=result.advice))], 1


def _schema(step: Step[In, Record], step_input: In) -> str:
    """Return the output schema as JSON; that of an extraction lists its categories."""
    if not isinstance(step_input, ExtractionInput):
        return _schema_of(step.output)
    return offering(step.output, step_input.categories, several_groups=len(step_input.people.groups) > 1)


@cache
def _schema_of(output: type[StepOutput]) -> str:
    return json.dumps(output.model_json_schema())


@cache
def _takes_strict(kind: "type[BaseChatModel]") -> bool:
    return "strict" in inspect.signature(kind.with_structured_output).parameters


def _bind(model: "BaseChatModel", schema: dict[str, Any], method: str) -> Bound:
    """Bind the model to the output schema, without its provider's parser.

    Those parsers accept different things (half a JSON object, an empty one), quote the answer in their errors and lose
    the usage. A schema as a dict keeps the OpenAI client from parsing too.
    """
    options: dict[str, Any] = {}
    if method == "json_schema" and _takes_strict(type(model)):
        options["strict"] = True
    try:
        chain = model.with_structured_output(schema, method=method, **options)
    except (NotImplementedError, ValueError) as error:
        raise ConfigurationError(
            f"{type(model).__name__} has no structured output by {method}; try MNEMIC_STRUCTURED_OUTPUT"
        ) from error
    if not isinstance(chain, RunnableSequence):
        raise ConfigurationError(
            f"{type(model).__name__} has no structured output that can be read; set MNEMIC_STRUCTURED_OUTPUT=text"
        )
    return chain.first


def _texts(answer: AIMessage) -> list[str]:
    """Return the texts that may hold the record: arguments of calls, whole ones first, then the message's own text."""
    texts = [_as_text(call["args"]) for call in (*answer.tool_calls, *answer.invalid_tool_calls)]
    texts.append(str(answer.text))
    return [text for text in map(without_thoughts, texts) if text.strip()]


def _as_text(arguments: Any) -> str:
    if isinstance(arguments, str | None):
        return arguments or ""
    try:
        return json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):  # a provider's package may use types of its own
        return _UNREADABLE


def _read(answer: AIMessage, output: type[Record], *, is_last: bool) -> Record | ValidationIssue:
    """Return the record of an answer, or its first flaw.

    Args:
        answer: answer of a model.
        output: type of the record.
        is_last: whether a record without any readable entry is accepted.
    """
    flaws: list[ValidationIssue] = []
    for text in _texts(answer):
        result = _record_in(text, output, is_last=is_last)
        if not isinstance(result, ValidationIssue):
            return result
        flaws.append(result)
    flaws.append(EMPTY)
    return flaws[0]


def _record_in(text: str, output: type[Record], *, is_last: bool) -> Record | ValidationIssue:
    if is_unreasonable(text.encode(errors="replace")):
        return UNREASONABLE
    flaws: list[ValidationIssue] = []
    for value in candidates(text, output):
        try:
            record, refused = read_record(value, output)
        except ValidationError as error:
            flaws.append(_broke_schema(error))
            continue
        if refused and not is_last and not _has_entries(record):
            return _broke_schema(refused[0])
        return record
    flaws.append(BROKEN)
    return flaws[0]


def _has_entries(record: StepOutput) -> bool:
    return any(value for _, value in record if isinstance(value, list))


def _broke_schema(error: ValidationError) -> ValidationIssue:
    named: list[str] = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        # an unknown field name is part of the answer's content and must not be repeated
        place = problem["loc"]
        if problem["type"] == "extra_forbidden":
            place = place[:-1]
        named.append(f"{'.'.join(map(str, place)) or 'the answer'}: {problem['msg']}")
    return ValidationIssue("it broke the schema", BROKE_SCHEMA.format(problems="; ".join(named[:MAX_NAMED_PROBLEMS])))
