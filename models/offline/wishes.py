"""Standing wishes toward the assistant: how to answer, what to call someone, what never to do."""

import re
from collections.abc import Iterator

from mnemic.models.offline import form
from mnemic.models.offline.clauses import expanded
from mnemic.models.offline.lexicon import DANGLING, PERSONAL
from mnemic.models.offline.pieces import entries, pattern, words
from mnemic.models.offline.text import WORD
from mnemic.models.offline.verbs import third_person

_SHAPES = tuple(
    (wording, pattern("<WISHES_POLITE>" + "".join(shape) + "$", ignore_case=True))
    for wording, *shape in entries("wishes.txt")
)
_ASKED_POLITELY = re.compile(r"(?:^|[:,] )(?:please )?(?:can|could|would|will) you\b", re.IGNORECASE)
#: `One thing, for you, assistant: ...` and `And please ...`: words before the wish itself.
_BEFORE = pattern(
    r"(?:[^:?!]{0,60}\b(?:assistant|bot)\b[^:]{0,20}:\s*"
    r"|(?:and|but|also|so|oh|ok|okay|one more thing|by the way|yes|no),? )+",
    ignore_case=True,
)
#: Where the reason for a wish, or a remark that follows it, begins.
_REASON = pattern(
    r"(?:,|;| -| –)\s+(?=(?:I'm|<REMARK_WORD>)\b)|\s+(?=because\b|so (?:that|I|we)\b)|[.!:]\s+", ignore_case=True
)
#: `the work stuff`
_LOOSE = re.compile(r"^(?:the |my |our )?([\w-]+) (?:stuff|things)$")
_VERBS = words("WISH_VERB")
_US = re.compile(r"\b(?:us|our|ours)\b", re.IGNORECASE)
_POINTS_WITHIN = frozenset({"how", "what", "why", "one", "each", "such", "above", "below", "here"})


def wish(sentence: str, name: str, group: str | None = None) -> str | None:
    """The wish as a sentence about its author, or None where the sentence is none; one for `us` is the group's."""
    text = expanded(re.sub(r"\bI'd\b", "I would", sentence.strip())).rstrip(" .!,?")
    lead = _BEFORE.match(text)
    text = text[lead.end() :] if lead else text
    if sentence.rstrip().endswith("?") and not _ASKED_POLITELY.search(text):
        return None
    return next((found for part in _shorter(text) if (found := _read(part, name, group))), None)


def is_of_group(wish_of_somebody: str, group: str | None) -> bool:
    """Whether a wish that was found is the group's own."""
    return group is not None and wish_of_somebody.startswith(f"{group} ")


def _shorter(text: str) -> Iterator[str]:
    """The text, then the text cut ever shorter where a reason begins."""
    yield text
    for match in reversed(list(_REASON.finditer(text))):
        yield text[: match.start()].rstrip(" .!,?")


def _read(text: str, name: str, group: str | None) -> str | None:
    for wording, shape in _SHAPES:
        match = shape.match(text)
        if match is not None:
            parts = {key: value or "" for key, value in match.groupdict().items()}
            verb = parts.get("verb", "").lower()
            if verb in _VERBS or verb in ("like", "want") or not verb:
                who = group if group is not None and _US.search(text) else name
                parts |= {"name": name, "who": who, "verb": verb, **_reworded(parts)}
                return _written(wording.format(**parts), name, who)
    return None


def _reworded(parts: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in parts.keys() & {"what", "when"}:
        found[key] = _LOOSE.sub(r"\1 matters", parts[key].lower())
    if "does" in parts:
        verb, _, rest = parts["does"].strip().partition(" ")
        found["does"] = f"{third_person(verb.lower())} {rest}"
    return found


def _written(text: str, name: str, who: str) -> str | None:
    """The sentence with the speaker and the assistant named; None where it points to something unsaid."""
    named = {"my": f"{name}'s", "me": name, "your": "the assistant's"} | (
        {"our": f"{who}'s", "us": who} if who != name else {}
    )
    text = re.sub(r"\b(show|give|send|write) me (?=\w+ \w)(?!in |as |with |at |on |before |after |by )", r"\1 ", text)
    text = re.sub(r"\b(?:my|me|your|our|us)\b", lambda match: named.get(match[0], match[0]), text)
    text = re.sub(r",? (?:please|okay|ok|thanks|thank you|if possible|if you can|still|too)$", "", text)
    found = {word.lower() for word in WORD.findall(text)}
    if found & (DANGLING | PERSONAL) - _POINTS_WITHIN or re.search(r"\bif\b|\?|\bgive up\b", text):
        return None
    written = form.sentence(text)
    return written if form.is_well_formed(written, form.MAX_REFLECTION_WORDS) else None
