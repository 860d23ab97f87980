"""Prompts are files with two sections and named slots; a mistake is said, not sent."""

import pytest

from mnemic.prompts.loader import load_prompt, parse_prompt
from mnemic.state.errors import ConfigurationError, InvalidInputError

GREETING = "# system\nBe kind.\n\n# user\nGreet {{name}} on {{day}}.\n"


def test_slots_are_filled_in_the_user_text() -> None:
    prompt = parse_prompt("greeting", GREETING)

    assert prompt.variables == {"name", "day"}
    assert prompt.render(name="Mara", day="Monday") == ("Be kind.", "Greet Mara on Monday.")


def test_a_slot_inside_a_value_is_not_filled() -> None:
    _, user = parse_prompt("greeting", GREETING).render(name="{{day}}", day="Monday")

    assert user == "Greet {{day}} on Monday."


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "Mara"}, r"missing \['day'\], surplus \[\]"),
        ({"name": "Mara", "day": "Monday", "hour": "9"}, r"missing \[\], surplus \['hour'\]"),
    ],
)
def test_a_missing_or_surplus_variable_is_named(values: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parse_prompt("greeting", GREETING).render(**values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Be kind.", "needs a '# system' section"),
        ("# system\nBe kind.\n", "needs a '# system' section"),
        ("# system\nBe kind to {{name}}.\n# user\nHello.\n", r"has the slot \{\{name\}\} in its system section"),
    ],
)
def test_a_malformed_prompt_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_prompt("greeting", text)


def test_an_unknown_prompt_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no prompt 'poem'"):
        load_prompt("poem")
