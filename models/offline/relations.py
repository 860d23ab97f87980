"""`My brother Jonas says so`: whatever is said, Jonas is the speaker's brother."""

from mnemic.models.offline import form
from mnemic.models.offline.clauses import expanded
from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.statement import Statement
from mnemic.models.offline.subjects import Voice

_RELATION = pattern("<RELATIONS_KIN_FIRST>")
_BEHIND = pattern("<RELATIONS_NAME_FIRST>")
#: In a condition or a question nobody is introduced for sure.
_UNSURE = pattern(r"\?|\b(?:if|suppose|imagine|pretend|wish)\b|\"", ignore_case=True)


def introduced(sentence: str, voice: Voice) -> Statement | None:
    """Who somebody named in passing is to the speaker, or None."""
    text = expanded(sentence)
    match = None if _UNSURE.search(text) else _RELATION.search(text) or _BEHIND.search(text)
    if match is None or not set(match["name"].split()) & voice.known:
        return None
    content = form.sentence(f"{voice.name}'s {match['kin'].lower()} is called {match['name']}")
    return Statement(content, match["name"], "relationships", 4, shared=False) if form.is_well_formed(content) else None
