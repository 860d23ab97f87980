"""Where one statement of a sentence ends and the next, with a subject of its own, begins."""

import re

from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.verbs import reading

#: Told by the words alone.
_JOINT = pattern("<CLAUSES_JOINT>")
#: A joint only where a subject and its verb follow.
_POSSIBLE = re.compile(r",?\s+(?:and|but|so|then|plus|while)\s+|,\s+")
_PRONOUN = re.compile(r"(?:he|she|it|they|there)\s+(?P<verb>[\w']+)", re.IGNORECASE)
_PHRASE = pattern(r"(?:the|an?|my|our|his|her|their|[A-Z][\w-]*'s)\s+(?P<words>[\w'-]+(?:\s+[\w'-]+){1,3})")
_NAME = pattern(r"(?P<name>[A-Z][\w-]*)(?: [A-Z][\w-]+)?\s+(?P<verb>[\w']+)")
_AUXILIARIES = pattern(r"(?:(?:is|are|was|were|has|have|had|will|can|does|do)(?:n't)?|won't|can't)$", ignore_case=True)


def split(text: str, names: frozenset[str]) -> list[tuple[str, str]]:
    """The statements of a sentence, each after the words that join it to the one before."""
    found: list[tuple[str, str]] = []
    link = ""
    start = 0
    for match in _JOINT.finditer(text):
        found.extend(_spliced(link, text[start : match.start()], names))
        link, start = match[0], match.end()
    return [*found, *_spliced(link, text[start:], names)]


def _spliced(link: str, text: str, names: frozenset[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    start = 0
    for match in _POSSIBLE.finditer(text):
        if begins_statement(text[match.end() :], names):
            found.append((link, text[start : match.start()]))
            link, start = match[0], match.end()
    return [*found, (link, text[start:])]


def begins_statement(text: str, names: frozenset[str]) -> bool:
    """Whether a subject and its finite verb stand at the start."""
    pronoun = _PRONOUN.match(text)
    if pronoun is not None:
        return _is_finite(pronoun["verb"]) or reading(pronoun["verb"], "base", "past") is not None
    phrase = _PHRASE.match(text)
    if phrase is not None:
        return any(_is_finite(word) for word in phrase["words"].split()[1:])
    named = _NAME.match(text)
    return named is not None and named["name"] in names and _is_finite(named["verb"])


def _is_finite(word: str) -> bool:
    """A past form may be a participle after a noun, so that it does not count."""
    return _AUXILIARIES.match(word) is not None or reading(word, "third") is not None
