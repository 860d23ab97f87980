"""A procedure: numbered steps, kept because somebody asked for it, recalled only where its category is asked for."""

import re
from typing import Final

from mnemic.operations.explicit.store_explicit import Conversation, keep
from mnemic.operations.formation.scope_resolver import Draft
from mnemic.operations.run.resources import Resources
from mnemic.policy.text.hygiene import require_text
from mnemic.policy.text.writing import check_text
from mnemic.state.errors import InvalidInputError
from mnemic.state.explicit import ProcedureRequest, Remembered
from mnemic.state.identity import Identity

PROCEDURAL: Final = "procedural"
_IMPORTANCE: Final = 3
#: `1.`, `2)`, `Step 3:` or a bullet, which the numbers here replace.
_MARK = re.compile(r"^(?:step\s+)?\d{1,2}\s?[.):]\s+|^[-*•]\s+", re.IGNORECASE)


async def remember_procedure(
    resources: Resources, identity: Identity, request: ProcedureRequest, said: Conversation = None
) -> Remembered:
    """Stores the title and, below it, a line for each step; or names the procedure that says the same.

    Whoever may not read procedures may write one all the same: a supervisor keeps what an executor will need.

    Args:
        said: as for `remember`.

    Raises:
        CategoryRefusedError: the role has no allowlist.
        InvalidInputError: the title or a step says nothing, or the whole is too long.
        EmbeddingError: it could not be embedded; nothing was written.
    """
    allowed = resources.categories.of_role(identity.role).categories
    draft = Draft(
        scope=request.scope,
        text=_written(request),
        category=PROCEDURAL,
        importance=_IMPORTANCE,
        private=False,
        provenance="asserted",
    )
    categories = [*allowed, PROCEDURAL]
    return await keep(
        resources, identity, draft, kind="procedure", said=said, reason="remember_procedure", categories=categories
    )


def _written(request: ProcedureRequest) -> str:
    lines = [_line(request.title, "the title")]
    for number, step in enumerate(request.steps, start=1):
        lines.append(f"{number}. {_line(_MARK.sub('', step.strip()), f'step {number}')}")
    verdict = check_text(require_text("\n".join(lines), what="the procedure"), kind="procedure")
    if verdict.text is None:
        raise InvalidInputError("the procedure repeats itself: write each step once, as an order to whoever follows it")
    return verdict.text


def _line(text: str, what: str) -> str:
    return " ".join(require_text(text, what=what).split())
