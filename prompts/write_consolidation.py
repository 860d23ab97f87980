"""The step that writes the one living text of a scope."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from mnemic.state.identity import Scope


@dataclass(frozen=True, kw_only=True)
class DatedText:
    """A reflection and when it was formed."""

    dated: datetime
    content: str


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A draft that was not accepted, and why."""

    draft: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class WriteConsolidationInput:
    """What the step is given."""

    scope: Scope
    #: Display name of the user, group, session or agent.
    owner: str
    current: str
    #: Oldest first; the newer wins where two disagree.
    reflections: tuple[DatedText, ...]
    word_limit: int
    guidance: str
    revision: Revision | None = None


class WriteConsolidationOutput(BaseModel):
    """The new text."""

    model_config = ConfigDict(extra="forbid")

    text: str
