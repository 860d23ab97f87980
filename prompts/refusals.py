"""What a model reads when a tool could not do what it asked: what is wrong, what to do, nothing of the inside."""

NO_MEMORY = "The memory cannot be reached now. Go on without it, and do not try again in this turn."
NO_EMBEDDER = 'The question could not be compared by meaning. Ask again with search_type "text" and no threshold.'
NO_LOOP = (
    "The memory cannot be reached from here: the application has to await the agent (ainvoke), or run it in a thread "
    "beside the event loop that opened the memory. Go on without it."
)


def refused_argument(problem: str) -> str:
    """Names the mistake, so that the next call can avoid it."""
    return f"Refused: {problem.rstrip('.')}. Call again without that mistake, or go on without it."
