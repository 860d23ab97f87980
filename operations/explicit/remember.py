"""What somebody asks to remember: a fact, a core memory, a procedure; under every rule that formation obeys."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mnemic.operations.explicit.store import Conversation, store_explicit
from mnemic.operations.formation.drafts import Draft
from mnemic.operations.run.resources import Resources
from mnemic.policy.categories import Categories
from mnemic.policy.text.shape import require_text
from mnemic.policy.text.writing import Problem, check_text
from mnemic.state.errors import CategoryRefusedError, InvalidInputError
from mnemic.state.formation import ProcedureRequest, Remembered, RememberRequest
from mnemic.state.identity import Identity

#: As long as a reflection; each one is in every prompt.
MAX_CORE_CHARS: Final = 500
PROCEDURAL: Final = "procedural"
_PROCEDURE_IMPORTANCE: Final = 3
#: `1.`, `2)`, `Step 3:` or a bullet, which the numbers here replace.
_MARK = re.compile(r"^(?:step\s+)?\d{1,2}\s?[.):]\s+|^[-*•]\s+", re.IGNORECASE)
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
    resources: Resources, identity: Identity, request: RememberRequest, conversation: Conversation = None
) -> Remembered:
    """Stores a fact or a core memory, or names the memory that says the same.

    A wider scope than the user's counts only through the gate that formation's texts pass (`policy.formation.sharing`);
    else it is the user's own. A fact near a living one is added and related to it, for no model decides here: the
    answer names what it may replace.

    Args:
        conversation: where a model asks, whose word counts only as far as users said the same. None: it is the
            caller's own word.

    Raises:
        CategoryRefusedError: the role may not write into this category.
        InvalidInputError: the text is not written as a memory has to be; the message says how.
        EmbeddingError: it could not be embedded; nothing was written.
    """
    _require_writable(resources.categories, identity.role, request)
    draft = Draft(
        # what stands in everybody's every prompt is no matter of one conversation
        scope="user" if request.kind == "core" and conversation is not None else request.scope,
        text=_sentence(request),
        category=request.category,
        importance=request.importance,
        private=request.private,
        provenance="asserted",
    )
    allowed = resources.categories.of_role(identity.role).categories
    return await store_explicit(
        resources, identity, draft, kind=request.kind, conversation=conversation, categories=allowed
    )


async def remember_procedure(
    resources: Resources, identity: Identity, request: ProcedureRequest, conversation: Conversation = None
) -> Remembered:
    """Stores the title and, below it, a line for each step; or names the procedure that says the same.

    Whoever may not read procedures may write one all the same: a supervisor keeps what an executor will need.

    Args:
        conversation: as for `remember`.

    Raises:
        CategoryRefusedError: the role has no allowlist.
        InvalidInputError: the title or a step says nothing, or the whole is too long.
        EmbeddingError: it could not be embedded; nothing was written.
    """
    allowed = resources.categories.of_role(identity.role).categories
    draft = Draft(
        scope=request.scope,
        text=_procedure(request),
        category=PROCEDURAL,
        importance=_PROCEDURE_IMPORTANCE,
        private=False,
        provenance="asserted",
    )
    return await store_explicit(
        resources, identity, draft, kind="procedure", conversation=conversation, categories=[*allowed, PROCEDURAL]
    )


def _require_writable(categories: Categories, role: str, request: RememberRequest) -> None:
    """The category is formed, and the role reads it itself: nobody writes where they may not look."""
    writable = categories.writable(role)
    if request.category not in writable:
        raise CategoryRefusedError(
            f"not a category that this role may write: it may choose {', '.join(writable) or 'none'}"
        )
    if request.kind == "core" and not categories.of_role(role).standing:
        raise CategoryRefusedError("this role does not read core memories and may not write them: choose the kind fact")


def _sentence(request: RememberRequest) -> str:
    given = _line(request.content, "content")
    verdict = check_text(given, kind=request.kind)
    if verdict.problem:
        raise InvalidInputError(f"content cannot be kept as it is written: {_HOW_TO[verdict.problem]}")
    text = verdict.text or ""
    # what a formation would cut off, whoever asked can say better
    if len(text.split()) < len(given.split()) or (request.kind == "core" and len(text) > MAX_CORE_CHARS):
        raise InvalidInputError(f"content cannot be kept as it is written: {_TOO_LONG}")
    return text


def _procedure(request: ProcedureRequest) -> str:
    lines = [_line(request.title, "the title")]
    for number, step in enumerate(request.steps, start=1):
        lines.append(f"{number}. {_line(_MARK.sub('', step.strip()), f'step {number}')}")
    verdict = check_text(require_text("\n".join(lines), what="the procedure"), kind="procedure")
    if verdict.text is None:
        raise InvalidInputError("the procedure repeats itself: write each step once, as an order to whoever follows it")
    return verdict.text


def _line(text: str, what: str) -> str:
    return " ".join(require_text(text, what=what).split())
