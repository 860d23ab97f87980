"""Finds a text that speaks as or to the speakers instead of about them."""

import re

from mnemic.policy.text.common_words import is_common_word, word_set
from mnemic.policy.text.dates import DATE_WORDS
from mnemic.policy.text.words import Word, without_quotes, words

_PRONOUNS = word_set(
    "me my myself we us our ours ourselves you your yours yourself yourselves let's y'all we're we've we'll we'd "
    "you're you've you'll you'd"
)
_I = frozenset({"i", "i'm", "i've", "i'd", "i'll"})
#: `mine` is also a pit: only these before it make it a pronoun.
_BEFORE_MINE = frozenset({"of", "is", "was", "are", "were", "be", "and", "than", "like"})
_PLACE_WORDS = frozenset({"in", "at", "from", "to", "near", "since", "on", "for"})
#: What may follow a numeral (`Elizabeth I was queen`), but hardly a speaking I right after a name.
_AFTER_NUMERAL = word_set("of and or is was the in at for to by from with on as ended began ruled reigned died")
_NUMBERED = word_set(
    "war part phase type class level grade stage tier act chapter volume category section round title group"
)
_CLOSED = re.compile(r"\s*(?:[.,;:)\]?!–-]|$)")


def speaks_of_itself(text: str) -> bool:
    """Whether a pronoun of the first or second person stands outside quotation marks.

    The country US, pronouns within titles (a capital inside a sentence) and the Roman numeral I are none.
    """
    unquoted = without_quotes(text)
    found = words(unquoted)
    return any(_is_pronoun(unquoted, found, index) for index in range(len(found)))


def _is_pronoun(text: str, found: list[Word], index: int) -> bool:
    word = found[index]
    folded = word.text.casefold().replace("’", "'")
    if folded in _I:
        return not _is_other_i(text, found, index)
    if folded == "mine":
        return word.initial or found[index - 1].text.casefold() in _BEFORE_MINE
    if folded not in _PRONOUNS or word.text == "US":
        return False
    return word.initial or not word.text[0].isupper()


def _is_other_i(text: str, found: list[Word], index: int) -> bool:
    """A Roman numeral (`World War I`, `Elizabeth I`) or an abbreviation (`I/O`, `i.e.`)."""
    word = found[index]
    end = word.start + len(word.text)
    if len(word.text) > 1:
        return False
    if text[end : end + 1] in ("/", "&") or text[word.start : word.start + 3].casefold() == "i.e":
        return True
    if index == 0 or word.initial or word.text != "I":
        return False
    before = found[index - 1]
    if before.text.casefold() in _NUMBERED:
        return True
    if not _is_name(before) or text[before.start + len(before.text) : word.start] != " ":
        return False
    if index > 1 and found[index - 2].text.casefold() in _PLACE_WORDS:
        return False
    after = found[index + 1].text.casefold() if index + 1 < len(found) else ""
    return after in _AFTER_NUMERAL or _CLOSED.match(text, end) is not None


def _is_name(word: Word) -> bool:
    if not word.text[0].isupper() or word.text.casefold() in DATE_WORDS:
        return False
    return not (word.initial and is_common_word(word.text))
