"""A step: one job that a language model does for a graph, and the rule that does it without one."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from mnemic.prompts.loader import Prompt
from mnemic.state.refinement import Turn
from mnemic.state.settings import Tier

In = TypeVar("In")
Out = TypeVar("Out", bound=BaseModel)


class Step(NamedTuple, Generic[In, Out]):
    """One model step with everything it takes."""

    name: str
    prompt: Prompt
    #: The values of the prompt's slots for an input.
    variables: Callable[[In], dict[str, str]]
    output: type[Out]
    tier: Tier
    #: The pure rule that stands in where no model is configured.
    offline: Callable[[In], Out]
    #: The schema that a model is held to for an input; None: the output's own.
    schema: Callable[[In], dict[str, Any]] | None = None


class ToolStep(NamedTuple, Generic[In]):
    """One step in which a model acts by calling tools, turn by turn."""

    name: str
    prompt: Prompt
    #: The values of the prompt's slots for an input.
    variables: Callable[[In], dict[str, str]]
    tier: Tier
    #: The pure rule that takes the next turn where no model is configured.
    offline: Callable[[In], Turn]
