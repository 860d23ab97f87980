"""The one search statement. The caller owns the transaction; the question's vector was made before it began."""

import re
from collections.abc import Sequence
from typing import Final

from mnemic.state.records import Found, SearchType
from mnemic.state.settings import Settings
from mnemic.storage.database import Scoped
from mnemic.storage.statements import load_statements
from mnemic.storage.vectors import half_vector

_SQL = load_statements("search")
_QUOTED = re.compile(r'"([^"]{2,200})"')
#: In a database of locale C, Postgres takes typographic quotes for letters of the word beside them.
_STRAIGHT = str.maketrans("“”„", '"""')
#: Procedures and journals are found only when their category is asked for.
AUTOMATIC: Final = ("fact", "episode", "insight", "reflection", "message")


async def search(
    scoped: Scoped,
    question: str,
    vector: Sequence[float] | None,
    *,
    model: str,
    settings: Settings,
    most: int,
    search_type: SearchType = "hybrid",
) -> list[Found]:
    """The best entries of the visible scope keys, best first.

    Args:
        vector: of the question, by `model`; None searches by text alone.
        search_type: `semantic` and `text` leave the other branch out.
    """
    asked = "" if search_type == "semantic" else question.translate(_STRAIGHT)
    values = {
        "question": asked,
        "phrases": _QUOTED.findall(asked),
        "vector": None if vector is None or search_type == "text" else half_vector(vector),
        "model": model,
        "kinds": list(AUTOMATIC),
        "candidates": settings.search_candidates,
        "fusion": settings.fusion,
        "rrf_k": settings.rrf_k,
        "most": most,
    }
    return await scoped.rows(Found, _SQL["search"], values)
