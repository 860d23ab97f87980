"""What a conversation was about: names and nouns that came up in more than one message."""

import re
from collections import defaultdict
from collections.abc import Iterable

from mnemic.models.offline.conversation import Said
from mnemic.models.offline.lexicon import DANGLING, MONTHS, PERSONAL, STOP_WORDS, WEEKDAYS
from mnemic.models.offline.pieces import words
from mnemic.models.offline.text import WORD, stem
from mnemic.models.offline.verbs import reading

#: A word of one message characterises nothing.
_LEAST_MESSAGES = 2
#: More topics would say nothing.
_MOST_TOPICS = 3
#: Before one of these words stands a noun, or an adjective and a noun.
_BEFORE_NOUN = words("BEFORE_NOUN")
#: A phrase ends with its noun where one of these follows, or where the sentence ends.
_AFTER_NOUN = words("AFTER_NOUN")
_TITLES = words("TITLE")
#: Nouns however they are written.
_COMMON = words("BOOKABLE") | words("EVENT") | words("PROJECT") | words("HOME") | words("ROLE_AREA")
_NO_TOPICS = words("NUMBER_WORD") | words("VAGUE_NOUN") | frozenset(name.lower() for name in (*MONTHS, *WEEKDAYS))


def topics_of(said: Iterable[Said], speakers: set[str]) -> list[str]:
    """At most three topics, those of most messages first, names before nouns, each as it was written."""
    messages: dict[str, set[int]] = defaultdict(set)
    written: dict[str, str] = {}
    surely: set[str] = set()
    for sentence in said:
        for word, is_name, is_noun in _candidates(sentence.text):
            key = stem(word.lower())
            if _is_topical(word, is_name, speakers):
                messages[key].add(sentence.line.number)
                written.setdefault(key, word)
                if is_name or is_noun:
                    surely.add(key)
                if is_name:
                    written[key] = word
    often = [key for key, numbers in messages.items() if len(numbers) >= _LEAST_MESSAGES and key in surely]
    ranked = sorted(often, key=lambda key: (-len(messages[key]), not written[key][0].isupper()))
    return [_shown(written[key]) for key in ranked[:_MOST_TOPICS]]


def _candidates(text: str) -> Iterable[tuple[str, bool, bool]]:
    """Each word, whether it is written as a name, and whether it stands where only a noun stands."""
    found = list(WORD.finditer(text))
    for index, match in enumerate(found):
        word = match[0].removesuffix("'s")
        before = found[index - 1] if index else None
        after = found[index + 1] if index + 1 < len(found) else None
        if match[0] in _TITLES:
            continue
        starts = before is None or bool(re.search(r"[.!?:\"(]", text[before.end() : match.start()]))
        led = any(near[0].lower() in _BEFORE_NOUN for near in found[max(index - 2, 0) : index])
        is_last = after is None or _ends_phrase(after[0].lower()) or text[match.end() : after.start()] != " "
        is_name = word[0].isupper() and not starts and not word.isupper() and word.lower() not in _COMMON
        yield word, is_name, led and is_last


def _ends_phrase(word: str) -> bool:
    return word in _AFTER_NOUN or reading(word, "third") is not None


def _is_topical(word: str, is_name: bool, speakers: set[str]) -> bool:
    lower = word.lower()
    if lower in speakers or lower in _NO_TOPICS or stem(lower) in _NO_TOPICS or not word.isalpha() or len(word) < 3:
        return False
    if lower in STOP_WORDS | DANGLING | PERSONAL | words("NO_TOPIC") | words("ADVERB") | words("PREPOSITION"):
        return False
    return is_name or (stem(lower) not in words("NO_TOPIC") and not _is_verb(lower))


def _is_verb(word: str) -> bool:
    """Whether a word is rather a verb than a noun: `went` and `making` are, `release` and `painting` may be nouns."""
    known = reading(word, "base", "third", "ing", "past")
    return known is not None and (known.form == "past" or known.lemma not in words("REGULAR_VERB"))


def _shown(word: str) -> str:
    """A name as it is; a noun as the theme of a talk."""
    return word if word[0].isupper() and word.lower() not in _COMMON else f"the {word.lower()}"
