"""Which memories may leave a person's own scope for a group or the whole agent: by who typed it, where, marked how.

What a text is about is nobody's rule here: a list of words holds in one language, and is talked around in that one.
"""

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from mnemic.memory.text.details import DATE_WORDS, details, find_dates, find_numbers
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import folded_words, pattern, stem
from mnemic.state.identity import Scope
from mnemic.state.records import Message

#: Names of keys, tags, marks of roles, JSON, slots, and the beginnings of the lines in which prompts and contexts show
#: what was said.
_PROMPT_MARKS = (
    r"\b(?:user|agent|group|session)[_ ]id\b",
    r"[<＜][ \u200c\u200d]?[/／!?|a-z]|&(?:lt|amp|#\d+);",
    r"\[/?inst\]|```|\{\{|\{\s?\"",
    r"\[\d{4}-\d\d-\d\d\]|\[\d{1,2} \w{3,9} \d{4}\]|\d \[\d\d:\d\d\] ",
    r"(?:^|[.!?\n] ?)(?:system|assistant|user|developer|tool):|\((?:system|assistant|user|tool)\):",
)
_IMITATIONS = pattern("|".join(_PROMPT_MARKS), re.IGNORECASE)


def imitates_prompt(text: str) -> bool:
    """Whether a text looks like a part of a prompt: nothing of the kind is shown to others."""
    return bool(_IMITATIONS().search(text))


_EMAIL = re.compile(r"[\w+%-]@[\w-]{1,63}\.\w{2}")
#: Telephone, card and account numbers have 7 to 19 digits; separators are few, so that lists of figures are none.
_DIGIT_RUN = re.compile(r"(?<![\w.,])\+?\(?\d(?:[ ()./-]{0,2}\d){6,18}(?![\w,]|\.\d)")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}")
_TELLS_NOTHING = FUNCTION_WORDS | DATE_WORDS
#: Where words are not set apart, or bear endings of one sign.
_PAIRED = pattern(r"[\u0900-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")

#: Below this many characters a message is taken for the user's own words, unless it says that it is forwarded.
MIN_PASTED_CHARS = 600
#: Longer messages are rarely typed.
SURELY_PASTED_CHARS = 4000
#: So many lines of text make a long message a document; a typed one has a few paragraphs.
_MANY_LINES = 6

_FORWARDED = re.compile(r"^[>\s]{0,8}-{2,20}\s?(?:forwarded|original) message", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^\s{0,3}(?:```|~~~)", re.MULTILINE)
_HEADING = re.compile(
    r"^(?:#{1,6}\s|\d{1,2}(?:\.\d{1,2}){0,3}[.)]?[ \t]{1,4}[A-Z]|[A-Z][A-Z \d,&:.'()-]{7,80}$)", re.MULTILINE
)
_QUOTED_LINE = re.compile(r"^\s{0,3}>", re.MULTILINE)
_MAIL_HEADER = re.compile(r"^(?:from|to|cc|date|sent|subject):\s", re.IGNORECASE | re.MULTILINE)
_MARKUP = re.compile(r"</?(?:html|body|div|p|span|table|tr|td|ul|li|h[1-6])\b", re.IGNORECASE)


def has_contact_data(text: str) -> bool:
    """Whether an e-mail address, or a number of a telephone, a card or an account stands in a text."""
    return bool(_EMAIL.search(text) or _ACCOUNT.search(text) or _DIGIT_RUN.search(find_dates(text)[1]))


class Draft(NamedTuple):
    """What is known of a text when its place is decided."""

    scope: Scope
    text: str
    category: str
    private: bool
    #: Which of several groups is meant, by its number in the prompt.
    group: int = 0


def may_share(draft: Draft, sources: Sequence[Message], members: Set[str | None], personal: Set[str]) -> bool:
    """Whether a memory may have group or agent scope; else it belongs to its user, whatever a model says.

    It must not be private or of one of the personal categories, be without contact data, and rest on what these members
    typed: on no part of a prompt, and not on others, a tool, the assistant or a pasted document alone. What others read
    of it is a typed sentence: `policy.formation.proof`.
    """
    if draft.private or draft.category in personal or has_contact_data(draft.text):
        return False
    typed = [message.typed_text for message in sources if is_typed(message, members)]
    return bool(typed) and not any(map(imitates_prompt, [draft.text, *typed]))


def is_typed(message: Message, members: Set[str | None]) -> bool:
    """Return whether one of these members typed text in the message; pasted text and attachments do not count."""
    return bool(message.typed_text) and message.user_id in members and not is_pasted(message.typed_text)


def content_tokens(text: str, least: int = 3) -> frozenset[str]:
    """What a text tells: words of so many letters by their beginnings, numbers, and whether it denies something.

    Function words and dates do not count. Where words are not set apart, as in Chinese, every two neighbours do.
    """
    found = {re.sub(r"[^\d.:]", "", number) for number in find_numbers(find_dates(text)[1])}
    for word in folded_words(text):
        if _PAIRED().search(word):
            found.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif len(stem(word)) >= min(least, 4 if word == word.upper() else least) and word not in _TELLS_NOTHING:
            found.add(stem(word))
    return frozenset(found | ({"not"} if details(text).negated else set()))


def is_pasted(text: str) -> bool:
    """Return whether a message looks like pasted or forwarded text, which is not shared.

    A user's own memory of it is formed like that of any other text.

    Long (over 600 characters) with the shape of a document: a code fence, markup, two headings, quoted lines or mail
    headers, or at least six lines; or so long (over 4,000) that nobody types it; or marked as forwarded.
    """
    if _FORWARDED.search(text):
        return True
    if len(text) <= MIN_PASTED_CHARS:
        return False
    if len(text) > SURELY_PASTED_CHARS or _FENCE.search(text) or _MARKUP.search(text):
        return True
    if any(len(line.findall(text)) > 1 for line in (_HEADING, _QUOTED_LINE, _MAIL_HEADER)):
        return True
    return sum(bool(line.strip()) for line in text.splitlines()) >= _MANY_LINES
