"""The step that chooses among memories that may be raised to a group or to all users."""

from collections.abc import Sequence
from typing import NamedTuple

from mnemic.prompts.conversation import signature, single_line
from mnemic.prompts.loader import Step, StepOutput, load_prompt
from mnemic.state.identity import Attribution, distinct_sentence
from mnemic.state.records import Memory


class PropagateInput(NamedTuple):
    """Memories that may be raised, by the rules of sharing."""

    #: Display name of the group; empty: all users of the agent.
    group: str
    #: Each memory, and the text of the memory elsewhere that confirms it, or nothing.
    texts: Sequence[tuple[Memory, str]]

    def variables(self) -> dict[str, str]:
        """Return the values of the prompt's slots, escaped."""
        circle = "all users of the agent, who are strangers"
        if self.group:
            circle = f"the group {single_line(self.group)}"
        lines = []
        for number, (memory, elsewhere) in enumerate(self.texts, start=1):
            same = f" (elsewhere: {single_line(elsewhere)})" if elsewhere else ""
            lines.append(f"{number}. {single_line(memory.content)}{_signature(memory)}{same}")
        return {"circle": circle, "memories": "\n".join(lines)}


def _signature(memory: Memory) -> str:
    """Return the author and the typed sentence of a memory, which others may see from now on."""
    if memory.actor_id is None:
        return ""
    return signature(Attribution(memory.actor_id, distinct_sentence(memory)))


class PropagateOutput(StepOutput):
    """Numbers of the memories that are raised."""

    numbers: list[int]


PROPAGATE = Step[PropagateInput, PropagateOutput](load_prompt("background/propagate"), PropagateOutput, "slow")
