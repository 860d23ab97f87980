"""Whether a conversation supports the names and numbers of a draft, in whatever language it is written.

In doubt a draft passes: a wrong detail can be corrected, a fact that was refused has to be found among the messages.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from mnemic.memory.text.details import details, find_dates, find_numbers
from mnemic.memory.text.questions import is_question, spoken_sentences
from mnemic.memory.text.sharing import content_tokens
from mnemic.memory.text.words import pattern
from mnemic.state.records import Message, attachment_id

#: A number with fewer significant digits may have been a word (seventy-four, dois mil), a sum or another unit.
_MIN_CHECKED_DIGITS = 3
#: Digits of a time of day are not compared: 17:29 may have been 5:29 PM, or half past five.
_TIME = re.compile(r"\d:\d")
#: A year is computed from an age or from a message's time.
_YEAR = re.compile(r"(?:19|20)\d\d")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\s.,:/'’_()–-]{1,2}(?=\d)")
#: Numbers in Chinese characters; a draft may have them as digits.
_CHINESE_NUMBER = pattern(r"[〇零一二两兩三四五六七八九十百千万萬亿億]{3}")
#: Paths, addresses and identifiers: words that are joined by a sign.
_IDENTIFIER = re.compile(r"[\w.~-]*(?:[/\\@_][\w.~-]+)+")
#: Telling words of an answer that is more than a courtesy such as "thank you so much".
_MIN_ANSWER_WORDS = 4


def has_unknown_number(text: str, shown_digits: str) -> bool:
    """Whether a text has a number that was not shown to its writer and cannot be computed.

    Names are not checked: a draft may have them from another language, written out (NYC), or be in German, where every
    noun has a capital.

    Args:
        text: the draft.
        shown_digits: everything that was shown to the writer, by `joined_digits`.
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
        text = "".join(str(int(char)) if char.isdecimal() else char for char in text)
    return _BETWEEN_DIGITS.sub("", text)


def is_taken_up(text: str, sources: Sequence[Message], batch: Sequence[Message], known: Iterable[str]) -> bool:
    """Whether a user took up the names, numbers and quotations that a draft has from other speakers alone.

    One of the users' messages that the draft cites has to say something of what the draft says, or to answer the
    message with such a detail: a question, or in more words than a courtesy. So "yes, exactly" confirms "Is it in
    /srv/harbor?", and "thanks" confirms nothing. No list of words decides. A draft that cites no user's message is
    judged by its category alone.

    Args:
        text: the draft.
        sources: the messages that it cites.
        batch: the conversation.
        known: further texts that count as said by users, such as names and known facts.
    """
    cited = [message for message in sources if message.role == "user"]
    if not cited:
        return True
    speakers = content_tokens(" ".join({message.author for message in batch}), 1)
    own = [message.typed_text for message in batch]
    # substrings, for the tokens of a whole batch would take a tenth of a second for each draft
    said = "\n".join([*own, *known]).casefold()
    borrowed = [token for token in _details(text) - speakers if token not in said]
    claims = set()
    for message in batch:
        if message.role != "user" and any(token in message.content.casefold() for token in borrowed):
            claims.add(message.id)
    if not claims:
        return True
    claimed = content_tokens(text) - speakers
    answered = {message.id: _before(message, batch) for message in cited}
    return any(
        claimed & content_tokens(message.typed_text) or _answers(message, answered[message.id], claims)
        for message in cited
    )


@dataclass(frozen=True)
class Attachments:
    """Text that came with the messages of a conversation, and text that counts as typed. Read once, not per draft."""

    messages: frozenset[UUID]
    tokens: frozenset[str]
    dates: frozenset[str]
    typed_tokens: frozenset[str]
    typed_dates: frozenset[str]
    authors: frozenset[str]

    @classmethod
    def of(cls, batch: Sequence[Message], typed: Iterable[str]) -> "Attachments":
        """Return the attachments of a conversation.

        Args:
            batch: the conversation.
            typed: texts that count as typed.
        """
        messages = [message for message in batch if message.role == "attachment"]
        if not messages:
            return cls(*[frozenset()] * 6)
        attached, own = "\n".join(message.content for message in messages), "\n".join(typed)
        return cls(
            messages=frozenset(message.id for message in messages),
            tokens=content_tokens(attached, 1),
            dates=frozenset(find_dates(attached)[0]),
            typed_tokens=content_tokens(own, 1),
            typed_dates=frozenset(find_dates(own)[0]),
            authors=content_tokens(" ".join({message.author for message in batch}), 1),
        )

    def supply(self, text: str, sources: Sequence[Message]) -> bool:
        """Return whether a draft has its content from an attachment, which makes it no memory.

        Such a draft cites attachments alone, has a name, number or date from one, or more than a word in four. If it
        cites a message with an attachment, at least half of its words must be typed: the rest may be a translation.

        Args:
            text: the draft.
            sources: the messages that it cites.
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
        cited = {message.id for message in sources} | {attachment_id(message.id) for message in sources}
        return not cited.isdisjoint(self.messages) and 2 * len(missing) > len(claimed)


def _answers(message: Message, before: Sequence[Message], claims: Set[object]) -> bool:
    claimed = [other for other in before if other.id in claims]
    is_asked = any(is_question(sentence) for other in claimed for sentence in spoken_sentences(other.content))
    return is_asked or (bool(claimed) and len(content_tokens(message.typed_text)) >= _MIN_ANSWER_WORDS)


def _before(message: Message, batch: Sequence[Message]) -> list[Message]:
    """Return what others said between a user's message and the one before it."""
    found: list[Message] = []
    for other in batch:
        if other.id == message.id:
            return found
        found = [] if other.role == "user" else [*found, other]
    return found


def _details(text: str) -> frozenset[str]:
    """Return the tokens of the names, quotations and identifiers of a text, and of numbers that it has in digits."""
    found = details(text)
    identifiers = (match.group() for match in _IDENTIFIER.finditer(text))
    written = set(re.findall(r"\d+", find_dates(text)[1]))
    numbers = (number for number in found.numbers if written.intersection(re.findall(r"\d+", number)))
    return content_tokens("\n".join([*found.names, *found.quoted, *identifiers, *numbers]), 1)
