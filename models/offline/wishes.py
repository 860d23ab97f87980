"""Standing wishes toward the assistant: how to answer, what to call someone, what never to do."""

import re

from mnemic.models.offline import form
from mnemic.models.offline.clauses import expanded
from mnemic.models.offline.lexicon import DANGLING, PERSONAL
from mnemic.models.offline.text import WORD

_POLITE = r"(?:please,? |just |kindly |(?:can|could|would|will) you (?:please )?)*"
_STANDING = r"(?:from now on|from here on|in (?:the )?future|going forward|as a rule|by default|whenever we talk|every time)"
_ANSWERS = r"(?:answers?|repl(?:y|ies)|responses?|explanations?|messages?|summar(?:y|ies)|suggestions?|feedback|reminders?|code examples?|examples?)"
#: What an assistant is asked to leave out for good, not once.
_MANNERS = (
    r"(?:emojis?|bullet points?|bullets|jargon|exclamation marks?|small talk|markdown|tables|abbreviations|slang|filler|flattery|headings|"
    r"apologi[sz]\w*|sugar-?coat\w*|acronyms|disclaimers?|smileys?|footnotes?|buzzwords|(?:the )?passive voice|formal language|swear words)"
)
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"^{_POLITE}{pattern}$", re.IGNORECASE), wording)
    for pattern, wording in (
        (rf"(?:{_STANDING},? )?{_POLITE}keep (?:your |the |all |all your |my )?(?P<what>{_ANSWERS}) (?P<rest>.+)", "{name} wants {what} kept {rest}"),
        (rf"(?:{_STANDING},? )?{_POLITE}call me (?P<rest>(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)?)(?:,? {_STANDING})?", "{name} wants to be called {rest}"),
        (rf"(?:{_STANDING},? )?{_POLITE}(?P<when>always|never) (?P<verb>[\w-]+) (?P<rest>.+)", "{name} wants the assistant to {when} {verb} {rest}"),
        (rf"(?:{_STANDING},? )?{_POLITE}(?:don't|do not|no more|stop|avoid|skip) (?:ever )?(?:us(?:e|ing)|add(?:ing)?|send(?:ing)?|writ(?:e|ing) with)? ?(?:the |any |your )?(?P<rest>{_MANNERS}(?: .{{1,40}})?)", "{name} wants no {rest} from the assistant"),
        (rf"{_STANDING},? {_POLITE}(?:don't|do not) (?P<verb>[\w-]+) (?P<rest>.+)", "{name} wants the assistant not to {verb} {rest}"),
        (rf"{_POLITE}(?:don't|do not) (?P<verb>[\w-]+) (?P<rest>.+?),? (?:{_STANDING}|ever again|any ?more)", "{name} wants the assistant not to {verb} {rest}"),
        (rf"{_STANDING},? {_POLITE}(?P<verb>[\w-]+) (?P<rest>.+)", "{name} wants the assistant to {verb} {rest}"),
        (rf"{_POLITE}(?P<verb>[\w-]+) (?P<rest>.+?),? {_STANDING}", "{name} wants the assistant to {verb} {rest}"),
        (rf"I (?:really |strongly |much |always |would )?(?P<verb>prefer|like|want) (?:your |my |the |to get |to have )*(?P<rest>(?:[\w-]+ ){{0,2}}?{_ANSWERS}(?: .+)?)", "{name} prefers {rest}"),
    )
)
_ASKED_POLITELY = re.compile(r"(?:please )?(?:can|could|would|will) you\b", re.IGNORECASE)
_VERBS = frozenset(
    """answer reply respond write use call address send give show explain ask speak talk include skip remind format keep check
    start end treat suggest summarize summarise translate cite list put stick begin mention add tell correct quote spell double-check
    confirm make recommend offer assume share repeat interrupt apologize apologise round convert provide name link prefer read be""".split()
)


def wish(sentence: str, name: str) -> str | None:
    """The wish as a sentence about its author, or None where the sentence is none."""
    text = expanded(re.sub(r"\bI'd\b", "I would", sentence.strip())).rstrip(" .!,?")
    if sentence.rstrip().endswith("?") and not _ASKED_POLITELY.match(text):
        return None
    for shape, wording in _SHAPES:
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
    text = re.sub(r"\bmy\b", f"{name}'s", text)
    text = re.sub(r"\bme\b", name, text)
    text = re.sub(r"\byour\b", "the assistant's", text)
    text = re.sub(r",? (?:please|okay|ok|thanks|thank you|if possible|if you can)$", "", text)
    found = {word.lower() for word in WORD.findall(text)}
    if found & (DANGLING | PERSONAL) - {"how", "what", "why", "one", "each", "such"} or re.search(r"\bif\b|\?|\bgive up\b", text):
        return None
    written = form.sentence(text)
    return written if form.is_well_formed(written, form.MAX_REFLECTION_WORDS) else None


