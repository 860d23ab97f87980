"""One explicit request to an agent's memory: the tool `memory_query`, `Mnemic.query` and `mnemic recall`."""

from dataclasses import replace

from mnemic.models.embedders import Vector
from mnemic.operations.run.resources import Resources
from mnemic.policy.recall.budget import fit
from mnemic.policy.text.hygiene import clean_question, clip_text
from mnemic.policy.text.tokens import count_tokens
from mnemic.prompts.memory_query import bullet_line
from mnemic.state.errors import EmbeddingError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Found
from mnemic.storage.search import search

#: Of a kept message, which may have 32,000 characters, a bullet shows the beginning; of a procedure every step counts.
MESSAGE_CHARS = 500


async def query(resources: Resources, identity: Identity, request: MemoryQuery) -> list[Found]:
    """The memories and kept messages that fit a request best, best first, within its budget.

    The categories are checked before anything is read. The transaction is bound to the role's whole allowlist whatever
    the request names, so that the database holds it too.

    Raises:
        CategoryRefusedError: a category is not on the role's allowlist, or the role has none.
        InvalidInputError: the question says nothing.
        EmbeddingError: the question could not be embedded; a search by text without a threshold needs no embedder.
        DatabaseUnavailableError: the database cannot be had in time.
    """
    wanted = resources.categories.requested(identity.role, request.categories)
    if not wanted:
        return []
    asked = request.model_copy(update={"query": _question(request)})
    is_embedded = asked.search_type != "text" or asked.threshold is not None
    vector = await _vector(resources, asked.query) if is_embedded else None
    allowed = resources.categories.of_role(identity.role).categories
    async with resources.database.scoped(identity, categories=allowed, for_recall=True) as scoped:
        found = await search(
            scoped,
            asked,
            vector,
            model=resources.embedder.name,
            settings=resources.settings,
            categories=wanted,
            rag_lengths=resources.categories.rag_lengths,
        )
    returned = _within_budget(found, asked)
    resources.note_uses(identity, [item.item_id for item in returned if item.kind != "message"])
    return returned


def result_line(found: Found, request: MemoryQuery) -> str:
    """One result as this request's answer shows it: the tokens of these lines are what a budget bounds."""
    if request.returns == "bullets" and found.kind == "message":
        found = replace(found, content=clip_text(found.content, MESSAGE_CHARS))
    return bullet_line(found)


def _question(request: MemoryQuery) -> str:
    words = clean_question(request.query)
    if not words:
        raise InvalidInputError("a search needs a question that says something")
    return words


async def _vector(resources: Resources, question: str) -> Vector:
    try:
        return (await resources.embedder.embed([question]))[0]
    except EmbeddingError as error:
        raise EmbeddingError(f'{error}; search_type="text" searches without the embedder') from None


def _within_budget(found: list[Found], request: MemoryQuery) -> list[Found]:
    if request.budget_tokens is None:
        return found
    return fit(found, tokens=lambda item: count_tokens(result_line(item, request)), budget=request.budget_tokens)
