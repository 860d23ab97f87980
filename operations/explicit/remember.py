"""A fact or a core memory, kept because somebody asked for it, under every rule that formation's texts obey."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mnemic.operations.explicit.store_explicit import Conversation, keep
from mnemic.operations.formation.scope_resolver import Draft
from mnemic.operations.run.resources import Resources
from mnemic.policy.categories import Categories
from mnemic.policy.text.hygiene import require_text
from mnemic.policy.text.writing import Problem, check_text
from mnemic.state.errors import CategoryRefusedError, InvalidInputError
from mnemic.state.explicit import Remembered, RememberRequest
from mnemic.state.identity import Identity

#: As long as a reflection; each one is in every prompt.
MAX_CORE_CHARS: Final = 500
_TOO_LONG: Final = "it is too long: say one thing, a fact in at most 30 words and 280 characters, and the rest apart"
_HOW_TO: Final[Mapping[Problem, str]] = MappingProxyType(
    {
        "empty": "it says nothing: write one complete sentence",
        "degenerate": "it repeats itself: write one complete sentence",
        "too_long": _TOO_LONG,
        "first_person": "it speaks as I or we: write it in the third person, with the name of whom it is about",
        "pronoun_start": "it begins with a pronoun: name whom or what it is about",
        "not_neutral": "it exclaims: write it in a neutral tone",
    }
)


async def remember(
    resources: Resources, identity: Identity, request: RememberRequest, said: Conversation = None
) -> Remembered:
    """Stores it, or names the memory that says the same.

    A wider scope than the user's counts only through the gate that formation's texts pass (`policy.sharing`); else it
    is the user's own. A fact near a living one is added and related to it, for no model decides here: the answer names
    what it may replace.

    Args:
        said: the conversation, where a model asks: its word counts only as far as users said the same. None: it is the
            caller's own word.

    Raises:
        CategoryRefusedError: the role may not write into this category.
        InvalidInputError: the text is not written as a memory has to be; the message says how.
        EmbeddingError: it could not be embedded; nothing was written.
    """
    category = _category(resources.categories, identity.role, request)
    draft = Draft(
        # what stands in everybody's every prompt is no matter of one conversation
        scope="user" if request.kind == "core" and said is not None else request.scope,
        text=_written(request),
        category=category,
        importance=request.importance,
        private=request.private,
        provenance="asserted",
    )
    allowed = resources.categories.of_role(identity.role).categories
    return await keep(resources, identity, draft, kind=request.kind, said=said, reason="remember", categories=allowed)


def _category(categories: Categories, role: str, request: RememberRequest) -> str:
    """One that is formed and that the role reads itself: nobody writes where they may not look."""
    writable = categories.writable(role)
    if request.category not in writable:
        raise CategoryRefusedError(
            f"not a category that this role may write: it may choose {', '.join(writable) or 'none'}"
        )
    if request.kind == "core" and not categories.of_role(role).standing:
        raise CategoryRefusedError("this role does not read core memories and may not write them: choose the kind fact")
    return request.category


def _written(request: RememberRequest) -> str:
    given = " ".join(require_text(request.content, what="content").split())
    verdict = check_text(given, kind=request.kind)
    if verdict.problem:
        raise InvalidInputError(f"content cannot be kept as it is written: {_HOW_TO[verdict.problem]}")
    text = verdict.text or ""
    # what a formation would cut off, whoever asked can say better
    if len(text.split()) < len(given.split()) or (request.kind == "core" and len(text) > MAX_CORE_CHARS):
        raise InvalidInputError(f"content cannot be kept as it is written: {_TOO_LONG}")
    return text
