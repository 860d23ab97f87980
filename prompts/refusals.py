"""What a model reads when a tool could not do what it asked: what is wrong, what to do, nothing of the inside."""

from collections.abc import Iterable

NO_MEMORY = "The memory cannot be reached now. Go on without it, and do not try again in this turn."
NO_EMBEDDER = 'The question could not be compared by meaning. Ask again with search_type "text" and no threshold.'
NO_LOOP = (
    "The memory cannot be reached from here: the application has to await the agent (ainvoke), or run it in a thread "
    "beside the event loop that opened the memory. Go on without it."
)


def refused_argument(problem: str) -> str:
    """Names the mistake, so that the next call can avoid it."""
    return f"Refused: {problem.rstrip('.')}. Call again without that mistake, or go on without it."


def unknown_tool(names: Iterable[str]) -> str:
    """A call of a tool that does not exist; the names are those that do."""
    return refused_argument(f"there is no tool of this name; there are {', '.join(names)}")


UNREADABLE_CALL = refused_argument("the arguments could not be read: send complete JSON that fits the tool")
