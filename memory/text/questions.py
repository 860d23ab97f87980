"""Separate questions from statements in a text, by punctuation and in any language."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from mnemic.memory.text.words import pattern, sentences

_WORD = re.compile(r"\w+(?:'\w+)*")
#: The end of a sentence after which a hasty writer goes on without a capital.
_HASTY = pattern(r"(?<=\w{3}[.!…])\s+(?=[a-zß-ÿα-ωа-я])")

#: Marks between clauses: the first clause of `I am vegan, what can I cook?` is a statement.
_CLAUSE_END = pattern(r"[,;:–—，、；：،]\W*\w")
#: Maximum length of a plain clause, in words.
_MAX_PLAIN_WORDS: Final = 12
#: No clause of 12 words is longer. A stored message may have 32,000 characters, and each search reads many messages.
_MAX_PLAIN_CHARS: Final = 400
_MAX_GREETING_CHARS: Final = 40
_MAX_GREETING_WORDS: Final = 2
_PHRASE = re.compile(r'"([^"]{2,200})"')
#: In a database of locale C, Postgres takes typographic quotes for letters of the adjacent word.
_STRAIGHT_QUOTES = str.maketrans("“”„", '"""')


def folded(text: str) -> list[str]:
    """Return the words and numbers without case and accents, in order; apostrophes are straight."""
    text = text.replace("’", "'").casefold()
    if text.isascii():
        return _WORD.findall(text)
    decomposed = unicodedata.normalize("NFKD", text)
    letters: list[str] = []
    for char in decomposed:
        if not unicodedata.combining(char):
            letters.append(char)
    return _WORD.findall("".join(letters))


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
            yield from _HASTY().split(sentence)


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends with a question mark of any script; quotes, emoji and the like may follow it."""
    has_greek_mark = False
    for char in reversed(sentence):
        if char.isalnum() or char in ".。":
            return has_greek_mark and unicodedata.name(char, "").startswith("GREEK")
        if "QUESTION MARK" in unicodedata.name(char, ""):
            return True
        if char == ";":  # Unicode's composed form of U+037E
            has_greek_mark = True
    return False


def without_questions(text: str) -> str:
    """Return a text without its questions; empty if it has nothing else."""
    statements: list[str] = []
    has_question = False
    for sentence in spoken_sentences(text):
        if is_question(sentence):
            has_question = True
        else:
            statements.append(sentence)
    if not has_question:
        return text
    remainder = " ".join(statements)
    if not any(char.isalnum() for char in remainder):
        return ""
    return remainder


def has_only_questions(text: str) -> bool:
    """Return whether a text has only questions, apart from a greeting of at most two words."""
    statements = without_questions(text)
    return statements != text and len(folded(statements)) <= _MAX_GREETING_WORDS


def is_plain(text: str) -> bool:
    """Return whether a text is one clause of at most 12 words without a number: such a question states nothing."""
    if len(text) > _MAX_PLAIN_CHARS or _CLAUSE_END().search(text):
        return False
    if any(char.isdigit() for char in text):
        return False
    return len(folded(text)) <= _MAX_PLAIN_WORDS


def is_bare_question(text: str) -> bool:
    """Return whether a text is only a question, in one plain clause."""
    return is_plain(text) and has_only_questions(text)


def repeats(text: str, question: str) -> bool:
    """Return whether a text has no word that the question lacks, apart from a greeting of at most two words."""
    if len(text) > 3 * len(question) + _MAX_GREETING_CHARS:
        return False
    additional = set(folded(text)).difference(folded(question))
    if not additional:
        return True
    return has_only_questions(text) and additional.issubset(folded(without_questions(text)))
