"""The step that draws conclusions about a user from facts, episodes and messages."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from mnemic.prompts.conversation import as_data, single_line
from mnemic.prompts.loader import Otherwise, Step, StepOutput, load_prompt

MAX_INSIGHTS: Final = 3


class InsightsInput(NamedTuple):
    """Facts, episodes and messages of a user."""

    #: Display name.
    user: str
    episodes: Sequence[str]
    facts: Sequence[str]
    #: Earlier insights.
    insights: Sequence[str]
    #: A snippet of the conversation.
    said: str

    def variables(self) -> dict[str, str]:
        """Return the values of the prompt's slots, escaped."""
        return {
            "user": single_line(self.user),
            "episodes": _listed(self.episodes),
            "facts": _listed(self.facts),
            "insights": _listed(self.insights),
            "said": as_data(self.said) or "(nothing kept)",
        }


def _listed(texts: Sequence[str]) -> str:
    return "\n".join(f"- {single_line(text)}" for text in texts) or "(none)"


class InsightDraft(StepOutput):
    """One insight."""

    summary: str
    tags: Annotated[list[str], Otherwise([])]
    importance: Annotated[int, Otherwise(2)]


class InsightsOutput(StepOutput):
    """At most three insights."""

    insights: list[InsightDraft]


INSIGHTS = Step[InsightsInput, InsightsOutput](load_prompt("background/insights"), InsightsOutput, "fast")
