"""Checks that a conversation supports the names and numbers of a draft, in any language. Pure.

In doubt a draft passes: a wrong detail can be corrected, but a refused fact can only be found among the messages.
"""

import re
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple
from uuid import UUID

from mnemic.memory.text.details import content_tokens, details, find_dates, find_numbers
from mnemic.memory.text.questions import is_question, spoken_sentences
from mnemic.memory.text.words import pattern
from mnemic.state.records import Message, attachment_id

#: A number with fewer significant digits may have been a word (seventy-four, dois mil), a sum or another unit.
_MIN_CHECKED_DIGITS = 3
#: Digits of a time of day are not compared: 17:29 may have been 5:29 PM, or half past five.
_TIME = re.compile(r"\d:\d")
#: A year is computed from an age or from a message's time.
_YEAR = re.compile(r"(?:19|20)\d\d")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\s.,:/'’_()–-]{1,2}(?=\d)")
#: A number in Chinese characters; a draft may have it in digits.
_CHINESE_NUMBER = pattern(r"[〇零一二两兩三四五六七八九十百千万萬亿億]{3}")
#: A path, address or identifier: words that are joined by a sign.
_IDENTIFIER = re.compile(r"[\w.~-]*(?:[/\\@_][\w.~-]+)+")
#: Content words of an answer that is more than a courtesy such as "thank you so much".
_MIN_ANSWER_WORDS = 4


def has_unknown_number(text: str, shown_digits: str) -> bool:
    """Return whether a text has a number that its writer did not read and could not compute.

    Names are not checked: a draft may translate them, write them out (NYC), or be in German, where every noun has a
    capital.

    Args:
        text: text of the draft.
        shown_digits: all text that the writer read, by `joined_digits`.
    """
    for number in find_numbers(find_dates(text)[1]):
        digits = joined_digits(number)
        value = re.sub(r"\D", "", digits)
        if len(value.strip("0")) < _MIN_CHECKED_DIGITS or _TIME.search(number) or _YEAR.fullmatch(value):
            continue
        # 118.40 is written 118.4 in a draft
        if value not in shown_digits and not _CHINESE_NUMBER().search(shown_digits):
            return True
    return False


def joined_digits(text: str) -> str:
    """Return the text with ASCII digits, and without the signs that part the digits of a number."""
    if not text.isascii():
        text = re.sub(r"\d", lambda digit: str(int(digit.group())), text)
    return _BETWEEN_DIGITS.sub("", text)


def is_confirmed(text: str, sources: Sequence[Message], batch: Sequence[Message], known: Iterable[str]) -> bool:
    """Return whether a user confirmed the names, numbers and quotations that a draft has from other authors alone.

    A cited message of a user confirms them if it has a content word of the draft, or if it answers a message with such
    a detail. It answers a question, or has more words than a courtesy. So "yes, exactly" confirms "Is it in
    /srv/harbor?", and "thanks" confirms nothing. A draft that cites no user's message passes.

    Args:
        text: text of the draft.
        sources: messages that the draft cites.
        batch: the conversation.
        known: further texts that count as users' words, such as names and stored facts.
    """
    cited = [message for message in sources if message.role == "user"]
    if not cited:
        return True
    authors = _author_tokens(batch)
    claims = _borrowing(_details(text) - authors, batch, known)
    if not claims:
        return True
    claimed = content_tokens(text) - authors
    if any(claimed & content_tokens(message.typed_text) for message in cited):
        return True
    return any(_answers(message, batch, claims) for message in cited)


def _borrowing(details_of_draft: Set[str], batch: Sequence[Message], known: Iterable[str]) -> set[UUID]:
    """Return the ids of other authors' messages with a detail of the draft that no user wrote."""
    # substrings, since the tokens of a whole batch would take a tenth of a second for each draft
    typed = "\n".join([*(message.typed_text for message in batch), *known]).casefold()
    borrowed = [token for token in details_of_draft if token not in typed]
    claims: set[UUID] = set()
    for message in batch:
        content = message.content.casefold()
        if message.role != "user" and any(token in content for token in borrowed):
            claims.add(message.id)
    return claims


def _author_tokens(batch: Iterable[Message]) -> frozenset[str]:
    return content_tokens(" ".join({message.author for message in batch}), 1)


class Attachments(NamedTuple):
    """Tokens of attached text, and of text that counts as typed; read once for all drafts."""

    messages: frozenset[UUID] = frozenset()
    tokens: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()
    typed_tokens: frozenset[str] = frozenset()
    typed_dates: frozenset[str] = frozenset()
    authors: frozenset[str] = frozenset()

    @classmethod
    def of(cls, batch: Sequence[Message], typed: Iterable[str]) -> "Attachments":
        """Return the attachments of a conversation.

        Args:
            batch: the conversation.
            typed: texts that count as typed.
        """
        messages = [message for message in batch if message.role == "attachment"]
        if not messages:
            return cls()
        attached, own = "\n".join(message.content for message in messages), "\n".join(typed)
        return cls(
            messages=frozenset(message.id for message in messages),
            tokens=content_tokens(attached, 1),
            dates=frozenset(find_dates(attached)[0]),
            typed_tokens=content_tokens(own, 1),
            typed_dates=frozenset(find_dates(own)[0]),
            authors=_author_tokens(batch),
        )

    def supply(self, text: str, sources: Sequence[Message]) -> bool:
        """Return whether a draft has its content from an attachment, so that it becomes no memory.

        Such a draft cites attachments alone, has a name, number or date from one, or more than a quarter of its words.
        If it cites a message with an attachment, at least half of its words must be typed: the rest may be a
        translation.

        Args:
            text: text of the draft.
            sources: messages that the draft cites.
        """
        if not self.messages:
            return False
        if sources and all(message.role == "attachment" for message in sources):
            return True
        claimed = content_tokens(text) - self.authors
        missing = claimed - self.typed_tokens
        borrowed = missing & self.tokens
        named = _details(text) | {token for token in borrowed if not token.isalpha()}
        if borrowed & named or len(borrowed) > max(1, len(claimed) // 4):
            return True
        if (self.dates - self.typed_dates).intersection(find_dates(text)[0]):
            return True
        if 2 * len(missing) <= len(claimed):
            return False
        return any(message.id in self.messages or attachment_id(message.id) in self.messages for message in sources)


def _answers(message: Message, batch: Sequence[Message], claims: Set[UUID]) -> bool:
    """Return whether a user's message answers one of the claims: a question, or in more words than a courtesy."""
    claimed = [other for other in _before(message, batch) if other.id in claims]
    if not claimed:
        return False
    if len(content_tokens(message.typed_text)) >= _MIN_ANSWER_WORDS:
        return True
    return any(_asks(other) for other in claimed)


def _asks(message: Message) -> bool:
    return any(is_question(sentence) for sentence in spoken_sentences(message.content))


def _before(message: Message, batch: Sequence[Message]) -> list[Message]:
    """Return the messages of other authors between a user's message and the one before it."""
    between: list[Message] = []
    for other in batch:
        if other.id == message.id:
            return between
        if other.role == "user":
            between = []
        else:
            between.append(other)
    return between


def _details(text: str) -> frozenset[str]:
    """Return the tokens of the names, quotations and identifiers of a text, and of numbers that it has in digits."""
    parts = details(text)
    identifiers = [match.group() for match in _IDENTIFIER.finditer(text)]
    digits = set(re.findall(r"\d+", find_dates(text)[1]))
    numbers = [number for number in parts.numbers if digits.intersection(re.findall(r"\d+", number))]
    return content_tokens("\n".join([*parts.names, *parts.quoted, *identifiers, *numbers]), 1)
