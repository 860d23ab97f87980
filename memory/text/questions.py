"""Separate questions from statements in a text, by punctuation and in any language."""

import re
import unicodedata
from collections.abc import Iterator

from mnemic.memory.text.words import sentences

_WORD = re.compile(r"\w+(?:'\w+)*")
#: The end of a sentence after which a hasty writer goes on without a capital.
_HASTY = re.compile(r"(?<=\w{3}[.!…])\s+(?=[a-zß-ÿα-ωа-я])")

#: Marks between clauses: the first clause of `I am vegan, what can I cook?` tells something.
_CLAUSE_END = re.compile(r"[,;:–—，、；：،]\W*\w")
_MAX_PLAIN_WORDS = 12
#: No clause of so many words is longer; a stored message may have 32,000 characters, and each search reads many.
_MAX_PLAIN_CHARS = 400
_MAX_GREETING_CHARS = 40
_PHRASE = re.compile(r'"([^"]{2,200})"')
#: In a database of locale C, Postgres takes typographic quotes for letters of the adjacent word.
_STRAIGHT_QUOTES = str.maketrans("“”„", '"""')


def folded(text: str) -> list[str]:
    """Return the words and numbers without case and accents, in order; apostrophes are straight."""
    letters = unicodedata.normalize("NFKD", text.replace("’", "'").casefold())
    return _WORD.findall("".join(letter for letter in letters if not unicodedata.combining(letter)))


def straight_quotes(query: str) -> str:
    """Return a query with straight quotation marks."""
    return query.translate(_STRAIGHT_QUOTES)


def quoted_phrases(query: str) -> list[str]:
    """Return the phrases of a query in quotation marks; each result holds them all."""
    return _PHRASE.findall(straight_quotes(query))


def spoken_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message: a line break ends one, and none needs a capital."""
    for line in text.splitlines():
        for sentence in sentences(line):
            yield from _HASTY.split(sentence)


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends with a question mark of any script; quotes, emoji and the like may follow it."""
    greek = False
    for char in reversed(sentence):
        if char.isalnum() or char in ".。":
            return greek and unicodedata.name(char, "").startswith("GREEK")
        if "QUESTION MARK" in unicodedata.name(char, ""):
            return True
        greek |= char == ";"  # Unicode's composed form of U+037E
    return False


def only_asks(text: str) -> bool:
    """Return whether a text has only questions, besides a greeting of at most two words."""
    telling = told(text)
    return telling != text and len(folded(telling)) < 3


def is_plain(text: str) -> bool:
    """Return whether a text is one clause of at most 12 words and has no number: such a question states nothing."""
    if len(text) > _MAX_PLAIN_CHARS or any(char.isdigit() for char in text) or _CLAUSE_END.search(text):
        return False
    return len(folded(text)) <= _MAX_PLAIN_WORDS


def is_bare_question(text: str) -> bool:
    """Return whether a text is only a question, in one plain clause."""
    return is_plain(text) and only_asks(text)


def repeats(text: str, question: str) -> bool:
    """Return whether a text has no word that the question lacks, besides a greeting of at most two words."""
    if len(text) > 3 * len(question) + _MAX_GREETING_CHARS:
        return False
    extra = {*folded(text)} - {*folded(question)}
    return not extra or (only_asks(text) and extra <= {*folded(told(text))})


def told(text: str) -> str:
    """Return a text without its questions; empty if it has nothing else."""
    spoken = [*spoken_sentences(text)]
    telling = [sentence for sentence in spoken if not is_question(sentence)]
    if len(telling) == len(spoken):
        return text
    return " ".join(telling) if any(map(str.isalnum, "".join(telling))) else ""
