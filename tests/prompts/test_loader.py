"""Prompts are files with two sections and named slots; a mistake is said, not sent."""

from pathlib import Path

import pytest

from mnemic import prompts
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


def test_slots_of_the_system_text_are_filled_where_they_are_asked_for() -> None:
    text = "# system\nBe kind to {{name}}.\n# user\nGreet {{name}} on {{day}}.\n"
    prompt = parse_prompt("greeting", text, system_slots=True)

    assert prompt.variables == {"name", "day"}
    assert prompt.render(name="{{day}}", day="Monday") == ("Be kind to {{day}}.", "Greet {{day}} on Monday.")
    with pytest.raises(InvalidInputError, match=r"missing \['day'\]"):
        prompt.render(name="Mara")


def test_one_prompt_alone_has_slots_in_its_system_text() -> None:
    names = {path.stem for path in Path(prompts.__file__).parent.glob("*.md")} - {"tools", "supervise"}
    with_slots = []
    for name in names:
        try:
            load_prompt(name)
        except ConfigurationError:
            with_slots.append(name)

    assert with_slots == ["refine"]
    assert load_prompt("refine", system_slots=True).variables
