"""One turn of a model that calls tools, over the real client, for every way in which its answer can be hostile."""

import json
import traceback
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.tools import BaseTool, tool

from mnemic.models import tool_calls
from mnemic.models.chat import ChatModels
from mnemic.models.offline import steps as rules
from mnemic.models.tool_calls import MAX_TEXT_CHARS, NO_NAME, run_turn
from mnemic.prompts.refinement.refine import RefineInput
from mnemic.state.errors import ConfigurationError, ModelError, ModelOutputError
from mnemic.state.kinds import Usage
from mnemic.state.refinement import Budget, ToolCall, Turn
from mnemic.state.settings import Settings
from tests.support.loopback import Answer, LoopbackModel, Reply, calling, offered, offering, schema_name
from tests.support.loopback import tool_call as wired
from tests.support.worlds import BEGAN

SECRET = "Mara's diagnosis"
INPUT = RefineInput(
    agent="harbor",
    persona=f"{SECRET}. {{{{owner}}}}",
    today=BEGAN.date(),
    scope="user",
    owner="Mara",
    budget=Budget(now=9000, target=5000, protected=100, most_protected=2000, removable=500, removed=0),
    batch=1,
    batches=1,
    ledger=(),
)


@tool
def update_memory(id: int, content: str) -> str:
    """Says one memory in fewer words."""
    raise AssertionError("the tools are shown to the model, and not called")


@tool
def complete_refinement(summary: str) -> str:
    """Ends the session."""
    raise AssertionError("the tools are shown to the model, and not called")


TOOLS: list[BaseTool] = [update_memory, complete_refinement]
SHORTER = ("update_memory", {"id": 3, "content": "Mara is ill."})


def online(endpoint: LoopbackModel) -> ChatModels:
    return ChatModels(Settings(base_url=endpoint.base_url, agent_model="openai:m"))


async def take(endpoint: LoopbackModel, *turns: Turn) -> Turn:
    """The model's turn after these."""
    return (await run_turn(INPUT._replace(turns=turns), TOOLS, online(endpoint))).output


async def answered(endpoint: LoopbackModel, answer: Answer) -> Turn:
    """What becomes of this answer."""
    endpoint.answer(offering("complete_refinement"), answer)
    return await take(endpoint)


def calls_of(turn: Turn) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in turn.calls]


# -- a turn as it should be


async def test_only_offline_the_rule_takes_the_turn_and_costs_nothing(
    endpoint: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "refine", lambda given: Turn(text=given.owner))
    by_rule = (Turn(text="Mara"), Usage(step="refine", model="offline", tier="agent"))
    assert await run_turn(INPUT, TOOLS, ChatModels(Settings())) == by_rule

    endpoint.answer(offering("complete_refinement"), 401)
    with pytest.raises(ModelError, match="openai:m"):
        await run_turn(INPUT, TOOLS, online(endpoint))


async def test_agent_model_receives_prompt_and_tools_and_chooses_its_calls(
    endpoint: LoopbackModel,
) -> None:
    endpoint.answer(offering("complete_refinement"), calling(SHORTER, SHORTER, text="Shorter."))

    turn, usage = await run_turn(INPUT, TOOLS, online(endpoint))

    assert turn.text == "Shorter."
    assert calls_of(turn) == [SHORTER, SHORTER]
    assert usage == Usage(step="refine", model="openai:m", tier="agent", calls=1, input_tokens=100, output_tokens=10)
    (request,) = endpoint.chat_requests
    system, user = request["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert INPUT.persona in system["content"]
    assert offered(request) == ["update_memory", "complete_refinement"]
    assert schema_name(request) is None
    assert "response_format" not in request
    assert not request.get("stream")


async def test_earlier_turns_are_sent_back_with_their_answers(endpoint: LoopbackModel) -> None:
    endpoint.answer(offering("complete_refinement"), calling())
    longer = {"id": 3, "content": "Größer"}
    done = ToolCall(id="a", name="update_memory", arguments=longer, answer="Done. 9,000 left.")
    unread = ToolCall(id="b", name="update_memory", arguments=None, answer="Your arguments could not be read.")
    unknown = ToolCall(id="c", name="fly", arguments={}, answer="There is no such tool.")

    await take(endpoint, Turn("Shorter.", (done, unread)), Turn("nothing was called here"), Turn(calls=(unknown,)))

    sent = endpoint.chat_requests[0]["messages"][2:]
    made = [
        (message["content"], call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for message in sent
        for call in message.get("tool_calls", [])
    ]
    assert made == [
        ("Shorter.", "a", "update_memory", longer),
        ("Shorter.", "b", "update_memory", {}),
        (None, "c", "fly", {}),
    ]
    answers = [(message["tool_call_id"], message["content"]) for message in sent if message["role"] == "tool"]
    assert answers == [(call.id, call.answer) for call in (done, unread, unknown)]
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "assistant", "tool"]


# -- arguments

LOOP = json.dumps({"content": f"{SECRET} " * 500})
LONG = json.dumps({"content": " ".join(f"{SECRET} {number}" for number in range(5000))})
UNREADABLE = {
    "broken JSON": f'{{"id": 3, "content": {SECRET}',
    "half of the JSON": f'{{"id": 3, "content": "{SECRET}',
    "prose": f"please shorten {SECRET}",
    "not a number": '{"id": NaN, "content": "x"}',
    "infinity": '{"id": 1e999, "content": "x"}',
    "a number without end": f'{{"id": {"9" * 5000}}}',
    "half a character": '{"id": 3, "content": "\\ud800"}',
    "brackets without end": "[" * 20_000,
    "nested too deep to be sent back": '{"a":' * 400 + "1" + "}" * 400,
    "nested as deep as can be": '{"a":' * 970 + "1" + "}" * 970,
    "far too long": LONG,
    "one thing repeated": LOOP,
}


@pytest.mark.parametrize("arguments", [pytest.param(text, id=name) for name, text in UNREADABLE.items()])
async def test_unreadable_call_has_no_arguments_and_its_turn_can_be_sent_back(
    endpoint: LoopbackModel, arguments: str
) -> None:
    turn = await sent_back(endpoint, calling(SHORTER, ("update_memory", arguments), text="\ud800"))

    assert calls_of(turn) == [SHORTER, ("update_memory", None)]


@pytest.mark.parametrize("arguments", [f'["{SECRET}"]', f'"{SECRET}"', "7", "true"])
async def test_arguments_that_are_no_object_are_answered_by_one_unreadable_call(
    endpoint: LoopbackModel, arguments: str
) -> None:
    # langchain-openai keeps the whole answer to itself then
    turn = await sent_back(endpoint, calling(SHORTER, ("update_memory", arguments)))

    assert calls_of(turn) == [(NO_NAME, None)]


async def test_no_arguments_are_an_empty_object(endpoint: LoopbackModel) -> None:
    made = calling(*[("update_memory", arguments) for arguments in ("", "{}", "null", "[]")])
    assert calls_of(await answered(endpoint, made)) == [("update_memory", {})] * 4


async def test_readable_calls_go_first_and_a_truncated_answer_has_none(
    endpoint: LoopbackModel,
) -> None:
    made = calling(("update_memory", '{"id": 4, "content": "Mara'), SHORTER, ("drop_all", {"sure": True}))

    read = calls_of(await answered(endpoint, made))
    assert read == [SHORTER, ("drop_all", {"sure": True}), ("update_memory", None)]
    read = calls_of(await sent_back(endpoint, Reply(message=made, finish_reason="length")))
    assert read == [("update_memory", None), ("drop_all", None), ("update_memory", None)]


# -- names, numbers, how many and how much


async def test_names_that_no_provider_takes_back_are_replaced(endpoint: LoopbackModel) -> None:
    names = [None, "", "update memory", "update_memory\n", "näme", "\ud800", "n" * 65]
    calls = [wired(str(place), name, "{}") for place, name in enumerate(names)]
    turn = await sent_back(endpoint, {"content": "\x00", "tool_calls": calls})

    assert calls_of(turn) == [(NO_NAME, {})] * len(names)


async def test_call_ids_are_kept_if_they_can_be_sent_back_and_stay_unique(endpoint: LoopbackModel) -> None:
    ids = ["toolu_01A", "toolu_01A", "", None, "x" * 65, "a b", "\ud800", "earlier", "call_2", "functions.f:0"]
    made = [wired(call_id, "update_memory", "{}") for call_id in ids]
    endpoint.answer(offering("complete_refinement"), {"content": None, "tool_calls": made})
    earlier = Turn(calls=(ToolCall("earlier", "f", {}, "x"), ToolCall("call_1", "f", {}, "x")))

    turn = await take(endpoint, earlier)

    replaced = [f"call_{number}" for number in range(2, 10)]
    assert [call.id for call in turn.calls] == ["toolu_01A", *replaced, "functions.f:0"]
    assert len({call.id for call in turn.calls}) == len(ids)


async def test_every_call_counts_and_the_text_is_cleaned_and_cut(endpoint: LoopbackModel) -> None:
    calls = [("update_memory", {"id": number}) for number in range(500)]
    turn = await answered(endpoint, calling(*calls, text="\u202e\ud800\x00I \r\n shorten. " + "words " * 50_000))

    assert calls_of(turn) == calls
    assert turn.text.startswith("I \n shorten. words")
    assert MAX_TEXT_CHARS - 10 < len(turn.text) <= MAX_TEXT_CHARS


NOTHING: dict[str, Answer] = {
    "nothing": {"content": None},
    "white space": " \n ",
    "a refusal": {"content": None, "refusal": f"I will not speak of {SECRET}."},
    "a refusal with calls": {**calling(SHORTER), "refusal": f"I will not speak of {SECRET}."},
    "a filter": Reply(message=calling(SHORTER, text=SECRET), finish_reason="content_filter"),
}


async def test_who_refuses_or_makes_no_call_has_taken_a_turn_without_calls(endpoint: LoopbackModel) -> None:
    for name, answer in NOTHING.items():
        assert await answered(endpoint, answer) == Turn(), name
    assert await answered(endpoint, "That is all.") == Turn(text="That is all.")


GARBLED: list[tuple[Any, list[Any]]] = [
    ([{"id": 7, "function": {"name": "update_memory", "arguments": "{}"}}], [(NO_NAME, None)]),
    ([{"id": "a", "function": {"name": 7, "arguments": "{}"}}], [(NO_NAME, None)]),
    ([{"id": "a", "function": {"name": "update_memory"}}], [("update_memory", {})]),
]
NO_CALLS = ["none", 7, [None], [{"id": "a"}], [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]]


async def test_garbled_calls_are_unreadable_and_unknown_functions_no_answer(
    endpoint: LoopbackModel,
) -> None:
    for garbled, read in GARBLED:
        assert calls_of(await answered(endpoint, {"content": None, "tool_calls": garbled})) == read
    for none in NO_CALLS:
        with pytest.raises(ModelError, match="unreadable answer"):
            await answered(endpoint, {"content": None, "tool_calls": none})


# -- what was taken is sent back


async def sent_back(endpoint: LoopbackModel, answer: Answer) -> Turn:
    """The turn that an answer is read as, which is sent back twice."""
    endpoint.answer(offering("complete_refinement"), answer, answer, calling())
    turns: list[Turn] = []
    while not turns or turns[-1].calls:
        turns.append(await take(endpoint, *turns))

    assert len(turns) == 3
    check_can_be_read(endpoint.chat_requests[-1]["messages"][2:], calls=2 * len(turns[0].calls))
    return turns[0]


def check_can_be_read(messages: Sequence[dict[str, Any]], calls: int) -> None:
    """As a strict provider reads them: numbered differently, each answered at once, JSON objects and no more."""
    made = [call for message in messages for call in message.get("tool_calls", [])]
    assert calls == len(made) > 0
    assert [call["id"] for call in made] == [
        message["tool_call_id"] for message in messages if message["role"] == "tool"
    ]
    assert len({call["id"] for call in made}) == len(made)
    for call in made:
        assert isinstance(json.loads(call["function"]["arguments"], parse_constant=pytest.fail), dict)
        assert call["function"]["name"].isascii()
        assert 0 < len(call["function"]["name"]) <= 64
    assert len(json.dumps(messages)) < 4000


async def test_control_a_turn_that_is_taken_as_it_comes_is_not_taken_back(
    endpoint: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_sent = itemgetter("id", "name", "args")
    monkeypatch.setattr(tool_calls, "_calls", lambda sent, *_: [ToolCall(*as_sent(call)) for call in sent.tool_calls])
    endpoint.answer(offering("complete_refinement"), calling(SHORTER), calling(SHORTER), calling())
    first = await take(endpoint)
    second = await take(endpoint, first)
    await take(endpoint, first, second)

    with pytest.raises(AssertionError):
        check_can_be_read(endpoint.chat_requests[2]["messages"][2:], calls=2)


# -- failures


@pytest.mark.parametrize(
    ("answer", "error", "kind"),
    [
        (b'{"choices": []}', ModelError, "unreadable answer"),
        (400, ModelOutputError, "MNEMIC_AGENT_MODEL"),  # a model that takes no tools looks the same
    ],
)
async def test_unreachable_or_refusing_model_is_a_typed_failure_without_contents(
    endpoint: LoopbackModel, answer: Answer, error: type[ModelError], kind: str
) -> None:
    with pytest.raises(ModelError) as caught:
        await answered(endpoint, answer)

    assert type(caught.value) is error
    assert "openai:m" in str(caught.value)
    assert kind in str(caught.value)
    assert caught.value.spent == Usage(step="refine", model="openai:m", tier="agent")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_a_model_that_takes_no_tools_is_a_configuration_error() -> None:
    class Plain(ChatModels):
        def get(self, tier: Any, *, shown: bool = False) -> BaseChatModel:
            return FakeListChatModel(responses=["x"])

    with pytest.raises(ConfigurationError, match=r"FakeListChatModel.* MNEMIC_AGENT_MODEL"):
        await run_turn(INPUT, TOOLS, Plain(Settings()))
