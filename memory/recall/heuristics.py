"""Decide by its words whether a message needs a search: requests, the past, the user's own affairs, names."""

from collections.abc import Sequence

from mnemic.memory.runtime.requests import Phrase
from mnemic.memory.text.details import may_be_name
from mnemic.memory.text.questions import folded, is_question, spoken_sentences
from mnemic.memory.text.words import bare, folded_words, is_common_word, pattern, word_set, words
from mnemic.state.records import ScopeContext

#: Unknown names that make a search worth it.
NAMES_NEEDED = 2

_QUESTION_WORDS = word_set("what when where who whom why how which whose")
_PAST = word_set("was were did had said told mentioned wasn't weren't didn't hadn't")
_SUBJECTS = word_set("i you he she it we they there")
_HYPOTHETICAL = word_set("if would should could might")
#: A question about the asker's own affairs: `what is my sister allergic to`, `do I drink coffee`.
_ABOUT_OWN = pattern(
    r"^(?:(?:and|so|but|ok|okay|hey|by the way) )*(?:"
    r"(?:(?:on|in|at|for|from|with|to) )?(?:what(?:'s)?|when(?:'s)?|where(?:'s)?|who(?:'s)?|which|whose|since when"
    r"|how (?:old|many|much|often|long))\b.*\b(?:i|i'm|my|mine|we|our|ours)"
    r"|(?:do|am|are|have|is|does) (?:i|we|my|our)"
    r"|do you (?:still )?(?:know|have)\b.*\b(?:my|i|our|we|me|us)"
    r")\b"
)
#: Words of a question for advice, not for memory: `what should I do`, `what do you think of my poem`.
_ADVICE = word_set(
    "should shall can could would might need want wanna gonna must think recommend recommendations advice"
)
#: Words between the question word and the past indicator: "which of the two restaurants was".
_MAX_BETWEEN = 4
#: Capitalised nouns of general knowledge, which refer to no memory.
_EVERYBODYS = word_set(
    "english french german spanish italian portuguese dutch danish swedish norwegian finnish polish russian ukrainian "
    "romanian hungarian czech greek turkish arabic hebrew hindi chinese mandarin japanese korean latin european "
    "american british internet christmas easter god python javascript typescript java"
)


def search_reason(message: str, standing: Sequence[ScopeContext] = (), requests: Sequence[Phrase] = ()) -> str | None:
    """Return the reason for a search: `phrase`, `past_question`, `own_question` or `names`; None if there is none.

    Args:
        standing: memories that are always in context; names that they do not have are a reason too.
        requests: phrases that request a search.
    """
    asked = [(folded(sentence), is_question(sentence)) for sentence in spoken_sentences(message)]
    if any(phrase.stands_in(found) for found, _ in asked for phrase in requests):
        return "phrase"
    if any(_asks_about_the_past(*sentence) for sentence in asked):
        return "past_question"
    if any(_asks_about_own(found) for found, is_asked in asked if is_asked):
        return "own_question"
    names = candidate_names(message)
    if len(names) < NAMES_NEEDED:
        return None
    unknown = unknown_names(names, "\n".join(part.text for part in standing))
    return "names" if len(unknown) >= NAMES_NEEDED else None


def unknown_names(names: tuple[str, ...], standing_text: str) -> tuple[str, ...]:
    """Return the names without any distinctive word in the context, in any case."""
    lines = [(line, line.casefold()) for line in standing_text.split("\n")]

    def is_known(word: str) -> bool:
        # skip lines that cannot hold the name: the words of 6,000 memories take 35 ms
        return any(word in folded and word in folded_words(line) for line, folded in lines)

    def telling(name: str) -> list[str]:
        # `New York` is known by `York`; a name of common words alone, by any of them
        folded = folded_words(name)
        return [word for word in folded if not is_common_word(word)] or folded

    return tuple(name for name in names if not any(map(is_known, telling(name))))


def _asks_about_the_past(found: Sequence[str], is_asked: bool) -> bool:
    """Return whether a question has a question word, soon followed by a past indicator.

    Without a question mark only the word order of a question counts: "where did she", but not "when I was young".
    """
    if not _HYPOTHETICAL.isdisjoint(found):
        return False
    for place, word in enumerate(found):
        if word.partition("'")[0] not in _QUESTION_WORDS:
            continue
        following = found[place + 1 : place + 2 + _MAX_BETWEEN]
        past = next((index for index, later in enumerate(following) if later in _PAST), None)
        if past is not None and (is_asked or (place <= 1 and _SUBJECTS.isdisjoint(following[:past]))):
            return True
    return False


def _asks_about_own(found: Sequence[str]) -> bool:
    """Return whether a question is about the user's own affairs, and not for advice."""
    return _ADVICE.isdisjoint(found) and bool(_ABOUT_OWN().match(" ".join(found)))


def candidate_names(message: str) -> tuple[str, ...]:
    """Return the names within the sentences of a message, each once; adjacent capitalised words are one name.

    Acronyms, shouted words and the first word of a sentence do not count.
    """
    names: dict[str, str] = {}
    joined = ""
    end = -1
    for word in words(message):
        name = bare(word.text)
        if word.initial or not may_be_name(word.text) or name.isupper() or name.casefold() in _EVERYBODYS:
            continue
        adjacent = message[end : word.start] in (" ", "-")
        if joined and adjacent:
            names.pop(joined.casefold(), None)
        joined = f"{joined} {name}" if joined and adjacent else name
        names.setdefault(joined.casefold(), joined)
        end = word.start + len(word.text)
    return tuple(names.values())
