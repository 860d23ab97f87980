"""The step that chooses among memories that may be raised to a group or to all users."""

from collections.abc import Sequence
from typing import NamedTuple

from mnemic.prompts.conversation import single_line
from mnemic.prompts.loader import Step, StepOutput, load_prompt


class PropagateInput(NamedTuple):
    """Memories that may be raised, by the rules of sharing."""

    #: Display name of the group; empty: all users of the agent.
    group: str
    #: Text of each memory, and of the memory elsewhere that confirms it, or nothing.
    texts: Sequence[tuple[str, str]]

    def variables(self) -> dict[str, str]:
        """The values of the prompt's slots, escaped."""
        circle = f"the group {single_line(self.group)}" if self.group else "all users of the agent, who are strangers"
        lines = []
        for number, (text, elsewhere) in enumerate(self.texts, start=1):
            same = f" (elsewhere: {single_line(elsewhere)})" if elsewhere else ""
            lines.append(f"{number}. {single_line(text)}{same}")
        return {"circle": circle, "memories": "\n".join(lines)}


class PropagateOutput(StepOutput):
    """Numbers of the memories that are raised."""

    numbers: list[int]


PROPAGATE = Step[PropagateInput, PropagateOutput](load_prompt("propagate"), PropagateOutput, "slow")
