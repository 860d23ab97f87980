"""The step that decides what a new fact does to the facts already known."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True, kw_only=True)
class KnownFact:
    """A stored fact, named by a number that is unique in the whole prompt."""

    number: int
    content: str
    dated: datetime
    similarity: float


@dataclass(frozen=True, kw_only=True)
class NewFact:
    """A new fact with the stored facts near it."""

    number: int
    content: str
    dated: datetime
    known: tuple[KnownFact, ...]


@dataclass(frozen=True, kw_only=True)
class DecideInput:
    """What the step is given."""

    facts: tuple[NewFact, ...]


class Decision(BaseModel):
    """What happens with one new fact (seed D 6.3)."""

    model_config = ConfigDict(extra="forbid")

    fact: int = Field(description="number of the new fact")
    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    known: list[int] = Field(description="numbers of the known facts it updates, contradicts or repeats; empty for ADD")
    text: str = Field(description="the sentence to store; empty for NONE")


class DecideOutput(BaseModel):
    """One decision for each new fact."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[Decision]
