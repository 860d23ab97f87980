"""Standing wishes toward the assistant: how to answer, what to call someone, what never to do."""

import re

from mnemic.models.offline import form
from mnemic.models.offline.clauses import expanded
from mnemic.models.offline.lexicon import DANGLING, PERSONAL
from mnemic.models.offline.pieces import entries, pattern, words
from mnemic.models.offline.text import WORD

_SHAPES = tuple(
    (wording, pattern("<WISHES_POLITE>" + "".join(shape) + "$", ignore_case=True))
    for wording, *shape in entries("wishes.txt")
)
_ASKED_POLITELY = re.compile(r"(?:please )?(?:can|could|would|will) you\b", re.IGNORECASE)
_VERBS = words("WISH_VERB")


def wish(sentence: str, name: str) -> str | None:
    """The wish as a sentence about its author, or None where the sentence is none."""
    text = expanded(re.sub(r"\bI'd\b", "I would", sentence.strip())).rstrip(" .!,?")
    if sentence.rstrip().endswith("?") and not _ASKED_POLITELY.match(text):
        return None
    for wording, shape in _SHAPES:
        match = shape.match(text)
        if match is not None:
            parts = {key: value or "" for key, value in match.groupdict().items()}
            verb = parts.get("verb", "").lower()
            if verb in _VERBS or verb in ("like", "want") or not verb:
                return _written(wording.format(name=name, **{**parts, "verb": verb, **_lowered(parts)}), name)
    return None


def _lowered(parts: dict[str, str]) -> dict[str, str]:
    return {key: parts[key].lower() for key in ("what", "when") if key in parts}


def _written(text: str, name: str) -> str | None:
    """The sentence with the speaker and the assistant named; None where it points to something unsaid."""
    named = {"my": f"{name}'s", "me": name, "your": "the assistant's"}
    text = re.sub(r"\b(?:my|me|your)\b", lambda match: named[match[0]], text)
    text = re.sub(r",? (?:please|okay|ok|thanks|thank you|if possible|if you can)$", "", text)
    found = {word.lower() for word in WORD.findall(text)}
    if found & (DANGLING | PERSONAL) - {"how", "what", "why", "one", "each", "such"} or re.search(
        r"\bif\b|\?|\bgive up\b", text
    ):
        return None
    written = form.sentence(text)
    return written if form.is_well_formed(written, form.MAX_REFLECTION_WORDS) else None
