"""The nodes of the recall graph."""

from langgraph.runtime import Runtime
from pydantic import ConfigDict, TypeAdapter

from mnemic.operations.recall import context
from mnemic.operations.run.graph import RecallNode
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.policy.recall.heuristics import search_reason
from mnemic.policy.text.shape import clean_question, count_tokens, display_name
from mnemic.prompts.memory_context import render_context
from mnemic.state.checking import validate
from mnemic.state.errors import DatabaseUnavailableError
from mnemic.state.graphs import RecallInput, RecallState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Found

#: Results are the graph's output, so they are plain JSON. Built when first used, which importing need not wait for.
_FOUND = TypeAdapter(list[Found], config=ConfigDict(defer_build=True))


def read_context(provide: Provider) -> RecallNode:
    """Reads what is always in context, and what changed since the session was told last."""

    async def node(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        request, identity = validate(RecallInput, state), identity_of(runtime)
        try:
            resources = await provide()  # opened at the first use, where a server loads the graph by its name
        except DatabaseUnavailableError as error:
            return context.without_memory(error)
        return await context.read_context(resources, identity, request)

    return node


async def decide(state: RecallState) -> RecallState:
    """Whether this turn needs a search, by the words of its question and without a model."""
    question = clean_question(state.get("question", ""))
    if state["search"] == "never" or not question:
        return {"question": question, "searched": None}
    reason = search_reason(question, state["standing"], always=state["search"] == "always")
    return {"question": question, "searched": reason}


def search(provide: Provider) -> RecallNode:
    """The one search, and what of its results fits into the budget."""

    async def node(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        return await context.search_context(await provide(), identity_of(runtime), state)

    return node


async def render(state: RecallState) -> RecallState:
    """Writes the context. The budget bounds the retrieved lines; refinement bounds the standing part."""
    standing, found = state["standing"], state["found"]
    names = {part.scope_key: display_name(split_scope_key(part.scope_key)[1]) for part in standing}
    text = render_context(standing, found, names=names, delta=state["delta"])
    return {"context": text, "memories": _FOUND.dump_python([*found], mode="json"), "tokens": count_tokens(text)}
