"""What a host that streams custom events is told of a turn: names, and nothing that anybody said or remembers."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from mnemic.state.identity import Identity
from mnemic.state.supervisor import Progress


def tell(runtime: Runtime[Identity], step: str, tools: Sequence[str] = ()) -> None:
    """A step begins; `tools` are those that it uses."""
    event: Progress = {"step": step, "tools": list(tools)} if tools else {"step": step}
    runtime.stream_writer(event)
