"""Every rule answers for texts that are made to hang it; a catastrophic pattern would never come back."""

from collections.abc import Callable

import pytest

from mnemic.policy.formation.bands import same_fact
from mnemic.policy.formation.sharing import content_tokens, is_pasted, is_personal, steers
from mnemic.policy.recall.heuristics import candidate_names, search_reason, unknown_names
from mnemic.policy.refinement import lost_memories
from mnemic.policy.text.details import kept_share
from mnemic.policy.text.shape import clean_text, clip_text, display_name, pieces, strip_recalled
from mnemic.policy.text.words import sentences
from mnemic.policy.text.writing import check_text, is_degenerate

#: Texts of 20,000 characters that a careless pattern would take hours for.
HOSTILE = {
    **{sign: sign * 20_000 for sign in ("a", "A", "1", " ", "\n", "“", "-", "<")},
    **{sign: sign * 19_999 for sign in ('"', "`")},
    **{part: part * (20_000 // len(part)) for part in ("a'", "a@", "1,000,", "1 ", "1/1/", "1.1.1.1", "> ", "I ")},
    **{part: part * (20_000 // len(part)) for part in ("<MemoryContext ", "<MemoryContext>", "</MemoryContext")},
    **{part: part * (20_000 // len(part)) for part in ("what ", "World War I ", "12 a b c ", "no one ")},
    "dots": "." * 20_000 + "a",
    "exclamations": "!" * 20_000 + "a",
    "closing apostrophes": "‘" + "’a" * 10_000,
}
RULES: dict[str, Callable[[str], bool]] = {
    "cleaning": lambda text: clean_text(text) == clean_text(clean_text(text)),
    "recalled blocks": lambda text: "<MemoryContext" not in strip_recalled(text),
    "clipping": lambda text: len(clip_text(text, 100)) <= 100 and len(display_name(text)) <= len(text),
    "comparison": lambda text: same_fact(text, text) and kept_share([text], text) == 1.0,
    "writing": lambda text: check_text(text, kind="fact").text is None and is_degenerate(text) in (True, False),
    "sharing": lambda text: is_pasted(text) and is_personal(text, "knowledge") in (True, False),
    "orders": lambda text: steers(text) in (True, False) and len(content_tokens(text)) >= 0,
    "losses": lambda text: len(lost_memories([text, "Ana"], text)) == 2,
    "search": lambda text: search_reason(text) in (None, "phrase", "past_question", "own_question", "names"),
    "names": lambda text: unknown_names(candidate_names(text), text) == (),
    "pieces": lambda text: max(map(len, pieces(text)), default=0) <= 1000,
    "sentences": lambda text: "".join("".join(sentences(text)).split()) == "".join(text.split()),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=map(repr, HOSTILE))
def test_every_rule_comes_back(text: str) -> None:
    assert [name for name, holds in RULES.items() if not holds(text)] == []
