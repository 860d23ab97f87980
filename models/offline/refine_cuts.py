"""Where a statement may end earlier: remarks on what was said before, which hold no detail and bind nobody."""

import re
from collections.abc import Iterator
from functools import lru_cache

from mnemic.models.offline.compression import is_binding, is_english
from mnemic.models.offline.verbs import reading
from mnemic.policy.text.details import details

#: Forms of verbs that mostly describe what comes after them, as in `a safe, loving home`.
_DESCRIBING = (
    "loving|caring|exciting|inspiring|amazing|interesting|relaxing|charming|welcoming|growing|encouraging|fulfilling"
    "|calming|challenging|stunning|soothing|rewarding|supporting|understanding|living|working|existing|following"
)
#: Where a remark may begin; behind a word that joins it must stand a verb.
_REMARK = re.compile(
    r",? (?:which|who|where|because|since|so that|as if|as (?=(?:he|she|it|they|this)\b)|while (?=\w+ing\b)"
    r"|even though|though|despite|by (?=\w+ing\b)|(?P<joint>and|&|or|that) (?=\w))"
    r"|, (?:(?:and|&) )?(?!(?:" + _DESCRIBING + r")\b)(?=\w+ing\b)|,? (?:particularly|especially)\b"
    r"| (?=(?:making|helping|finding|feeling|showing|allowing|bringing|giving|providing|including|inspiring|motivating"
    r"|causing|leading|aiming|hoping|expressing|emphasizing)\b)"
    r"| to (?=(?P<purpose>\w+))"
)
_FIRST_WORD = re.compile(r"\w+")
#: What remains has a meaning of its own, and does not end on a word that leads to another.
_LEAST_WORDS = 3
_OPEN_END = re.compile(
    r"(?:&|\b(?:is|are|was|were|be|been|being|has|have|had|will|to|of|in|on|at|by|for|with|from|about|into|as|like|than|or|and"
    r"|the|an?|his|her|their|its|that|feels?|felt|finds?|found|including|it|both|between|more|very|so|own|over|if"
    r"|but|which|who|when|where|while|because))$"
)
#: `decided to move`, `was able to move`: what follows is what happened, no purpose.
_NO_PURPOSE_AFTER = re.compile(
    r"\b(?:able|eager|excited|happy|ready|keen|willing|going|way|how|where|when|what|due|close|next|used|thanks|compared"
    r"|according|opportunity|chance|plans?|desire|decision|open|hard|easy|great|\w+ed|got|went|came|back|up|out|moved)$"
)


def remarks(body: str) -> Iterator[str]:
    """What the statement would be without its last remarks, the least cut first."""
    if not is_english(body):
        return
    for match in reversed(list(_REMARK.finditer(body))):
        rest, cut = body[: match.start()].rstrip(" ,;"), body[match.start() :]
        if not is_free(cut) or "; " in cut or " / " in cut:  # these part statements
            return
        if len(rest.split()) >= _LEAST_WORDS and not _OPEN_END.search(rest) and _is_remark(match, rest):
            yield rest


def _is_remark(match: re.Match[str], rest: str) -> bool:
    following = match.string[match.end() :]
    if match["joint"]:
        return _is_finite(following)
    if match["purpose"]:
        return (
            _tells_of_past(rest)
            and reading(match["purpose"], "base") is not None
            and not _NO_PURPOSE_AFTER.search(rest)
        )
    return True


def _is_finite(text: str) -> bool:
    first = _FIRST_WORD.match(text)
    return first is not None and (
        first[0] in ("is", "was", "has", "had") or reading(first[0], "third", "past") is not None
    )


def _tells_of_past(text: str) -> bool:
    first = _FIRST_WORD.match(text)
    return first is not None and reading(first[0], "past") is not None


@lru_cache(maxsize=8192)
def is_free(text: str) -> bool:
    """Whether a text holds no detail, and nothing that binds."""
    found = details(f"a {text}")
    return not (found.names or found.numbers or found.dates or found.quoted or is_binding(text))
