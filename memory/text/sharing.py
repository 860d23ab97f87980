"""Rules for memories that may be shared with a group or the whole agent, by author, form and marks of a text.

No rule depends on the topic of a text, since a list of words works in one language and can be talked around.
"""

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from mnemic.memory.text.details import find_dates
from mnemic.memory.text.words import pattern
from mnemic.state.formation import NotShared
from mnemic.state.identity import Scope
from mnemic.state.records import Message

#: Names of keys, tags, marks of roles, JSON, slots, and the beginnings of lines of conversations in prompts.
_PROMPT_MARKS = (
    r"\b(?:user|agent|group|session)[_ ]id\b",
    r"[<＜][ \u200c\u200d]?[/／!?|a-z]|&(?:lt|amp|#\d+);",
    r"\[/?inst\]|```|\{\{|\{\s?\"",
    r"\[\d{4}-\d\d-\d\d\]|\[\d{1,2} \w{3,9} \d{4}\]|\d \[\d\d:\d\d\] ",
    r"(?:^|[.!?\n] ?)(?:system|assistant|user|developer|tool):|\((?:system|assistant|user|tool)\):",
)
_IMITATIONS = pattern("|".join(_PROMPT_MARKS), re.IGNORECASE)


def imitates_prompt(text: str) -> bool:
    """Return whether a text looks like a part of a prompt, so that it is not shared."""
    return bool(_IMITATIONS().search(text))


_EMAIL = re.compile(r"[\w+%-]@[\w-]{1,63}\.\w{2}")
#: Telephone, card and account numbers have 7 to 19 digits; separators are few, so that lists of figures are none.
_DIGIT_RUN = re.compile(r"(?<![\w.,])\+?\(?\d(?:[ ()./-]{0,2}\d){6,18}(?![\w,]|\.\d)")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}")

#: Up to so many characters a message counts as typed, unless it is marked as forwarded.
MIN_PASTED_CHARS = 600
#: Longer messages are rarely typed.
SURELY_PASTED_CHARS = 4000
#: Lines from which a long message is a document; a typed one has a few paragraphs.
_MIN_DOCUMENT_LINES = 6

_FORWARDED = re.compile(r"^[>\s]{0,8}-{2,20}\s?(?:forwarded|original) message", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^\s{0,3}(?:```|~~~)", re.MULTILINE)
_HEADING = re.compile(
    r"^(?:#{1,6}\s|\d{1,2}(?:\.\d{1,2}){0,3}[.)]?[ \t]{1,4}[A-Z]|[A-Z][A-Z \d,&:.'()-]{7,80}$)", re.MULTILINE
)
_QUOTED_LINE = re.compile(r"^\s{0,3}>", re.MULTILINE)
_MAIL_HEADER = re.compile(r"^(?:from|to|cc|date|sent|subject):\s", re.IGNORECASE | re.MULTILINE)
_MARKUP = re.compile(r"</?(?:html|body|div|p|span|table|tr|td|ul|li|h[1-6])\b", re.IGNORECASE)


def has_contact_data(text: str) -> bool:
    """Return whether a text has an e-mail address, or a number of a telephone, a card or an account."""
    return bool(_EMAIL.search(text) or _ACCOUNT.search(text) or _DIGIT_RUN.search(find_dates(text)[1]))


class ShareRequest(NamedTuple):
    """Text and values of a memory before its scope key is decided."""

    scope: Scope
    text: str
    category: str
    private: bool
    #: Number of the group in the prompt, if there are several.
    group: int = 0


def obstacle_to_sharing(
    draft: ShareRequest, sources: Sequence[Message], members: Set[str | None], personal: Set[str]
) -> NotShared | None:
    """Return the reason why a memory may not have group or agent scope, or None if it may.

    It is neither private nor of a personal category, and has no contact data. It rests on messages that members typed,
    none of which looks like a part of a prompt. Other readers see a typed sentence: see `memory.text.proof`.
    """
    if draft.private:
        return "private"
    if draft.category in personal:
        return "personal_category"
    if has_contact_data(draft.text):
        return "contact_data"
    typed: list[str] = []
    for message in sources:
        if is_typed(message, members):
            typed.append(message.typed_text)
    if not typed:
        return "not_typed"
    if any(imitates_prompt(text) for text in [draft.text, *typed]):
        return "prompt"
    return None


def is_typed(message: Message, members: Set[str | None]) -> bool:
    """Return whether one of these members typed text in the message; pasted text and attachments do not count."""
    return bool(message.typed_text) and message.user_id in members and not is_pasted(message.typed_text)


def is_pasted(text: str) -> bool:
    """Return whether a message looks like pasted or forwarded text, which is not shared.

    Such a message is marked as forwarded, or has over 4,000 characters, or over 600 with the form of a document. That
    form is a code fence, markup, two headings, quoted lines or mail headers, or at least six lines. A user's own memory
    of the message is formed all the same.
    """
    if _FORWARDED.search(text):
        return True
    if len(text) <= MIN_PASTED_CHARS:
        return False
    if len(text) > SURELY_PASTED_CHARS or _FENCE.search(text) or _MARKUP.search(text):
        return True
    if any(len(line.findall(text)) > 1 for line in (_HEADING, _QUOTED_LINE, _MAIL_HEADER)):
        return True
    return sum(bool(line.strip()) for line in text.splitlines()) >= _MIN_DOCUMENT_LINES
