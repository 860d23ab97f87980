"""Typed sentences that prove the texts of shared memories, in any language. Pure."""

import re
from collections.abc import Iterator, Sequence, Set
from typing import Final, NamedTuple

from mnemic.memory.text.details import content_tokens, find_dates
from mnemic.memory.text.questions import has_only_questions
from mnemic.memory.text.sharing import has_contact_data, imitates_prompt
from mnemic.memory.text.words import sentences
from mnemic.state.records import Message

#: Words and numbers with the signs within them, and each other sign: `No, it is paid` is not `No it is paid`.
_TOKEN: Final = re.compile(r"[^\W_]+(?:[.,:/'-][^\W_]+)*|[^\w\s]|_")
_FINAL_MARKS: Final = frozenset(".!…。！")
#: Ends of a sentence, or of a line, that belong to the next one.
_OPEN_ENDS: Final = (":", "：", ",", "，", ";", "；", "-", "–", "—", "(", "…", "...")
#: A line without such an end goes on in the next line.
_LINE_ENDS: Final = (".", "!", "?", "。", "！", "？", "؟", ")", '"', "”", "»")
_LIST_MARK: Final = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+")
_YEAR_OF_DATE: Final = re.compile(r"(?<=[A-Za-z]) \d{4}$")
#: Characters up to which a message is one span, so that a sentence that denies another one stays with it.
_SHORT_MESSAGE: Final = 160
#: A longer span is not shown with a memory.
_MAX_SPAN_CHARS: Final = 600
#: A span with fewer content tokens proves nothing.
_MIN_TOKENS: Final = 2


class Proof(NamedTuple):
    """A whole sentence that a person typed, and the message that holds it."""

    message: Message
    said: str

    @property
    def author(self) -> str | None:
        """User id of the person."""
        return self.message.user_id


class Wording(NamedTuple):
    """Text of a shared memory for its readers."""

    content: str
    #: Text of the model, if the content is the typed sentence instead.
    draft: str | None


def shared_wording(text: str, said: str) -> Wording:
    """Return the text of a shared memory if it agrees with its typed sentence, else the sentence itself."""
    if agrees(text, said):
        return Wording(text, None)
    return Wording(said, text)


def confidential_spans(text: str, typed: Sequence[Message]) -> set[str]:
    """Return the typed sentences that a private memory rests on: those with two of its words, or all if none has."""
    wanted = _content(text)
    sentences_of_all: set[str] = set()
    for message in typed:
        sentences_of_all.update(spans(message.typed_text))
    close: set[str] = set()
    for sentence in sentences_of_all:
        if len(wanted & _content(sentence)) > 1:
            close.add(sentence)
    return close or sentences_of_all


def find_proof(text: str, typed: Sequence[Message], batch: Sequence[Message], confidential: Set[str]) -> Proof | None:
    """Return the typed sentence that a text rests on, or None if there is none that others may read.

    It is the one with most words, numbers and dates of the text; each counts less the more messages have it.
    Questions, contact data, parts of prompts and confidential sentences prove nothing.

    Args:
        text: text of the memory.
        typed: the messages that the memory cites and that a permitted person typed.
        batch: the conversation.
        confidential: sentences that private memories rest on.
    """
    weights: dict[str, float] = {}
    for token in _content(text):
        weights[token] = _rarity(token, batch)
    best, best_weight = None, 0.0
    for proof in _proofs(typed):
        shared = weights.keys() & _content(proof.said)
        weight = sum(weights[token] for token in shared)
        if weight > best_weight and proof.said not in confidential and _may_be_read(proof.said):
            best, best_weight = proof, weight
    return best


def _proofs(typed: Sequence[Message]) -> Iterator[Proof]:
    for message in typed:
        for said in spans(message.typed_text):
            yield Proof(message, said)


def _rarity(token: str, batch: Sequence[Message]) -> float:
    return 1 / (1 + sum(token in message.content.casefold() for message in batch))


def _may_be_read(said: str) -> bool:
    if len(said) > _MAX_SPAN_CHARS or has_only_questions(said) or has_contact_data(said) or imitates_prompt(said):
        return False
    return len(_content(said)) >= _MIN_TOKENS


def _content(text: str) -> frozenset[str]:
    """Return the content tokens of a text, and its dates without their years."""
    dates, _ = find_dates(text)
    return content_tokens(text, 1).union(_YEAR_OF_DATE.sub("", date) for date in dates)


def agrees(text: str, said: str) -> bool:
    """Return whether a text is its typed sentence: the same words, numbers and signs in the same order.

    Only the case of the first word and the marks at the end may differ. Any other difference may change the meaning in
    some language.
    """
    expected = _tokens(said)
    return bool(expected) and _tokens(text) == expected


def find_quotations(text: str, typed: Sequence[Message]) -> list[Proof]:
    """Return the sentences of these messages that the text agrees with and that others may read."""
    quotations: list[Proof] = []
    for proof in _proofs(typed):
        if agrees(text, proof.said) and _may_be_read(proof.said):
            quotations.append(proof)
    return quotations


def spans(text: str) -> list[str]:
    """Return the whole sentences of a typed text, each with the sentences that belong to it.

    A line without an end continues in the next one. A sentence with a colon, a comma, a dash or an open quotation at
    its end continues in the next sentence. A list is one span with the line above it. A short text is one span. A text
    that quotes another message has no span.
    """
    lines = text.splitlines()
    if any(line.lstrip().startswith(">") for line in lines):
        return []
    whole = " ".join(text.split())
    if len(whole) <= _SHORT_MESSAGE:
        return [whole] if whole else []
    joined: list[str] = []
    for sentence in _sentences(lines):
        if joined and (joined[-1].endswith(_OPEN_ENDS) or _is_open(joined[-1])):
            joined[-1] = f"{joined[-1]} {sentence}"
        else:
            joined.append(sentence)
    return joined


def _sentences(lines: Sequence[str]) -> Iterator[str]:
    """Yield the sentences of these lines; a list with the line above it counts as one."""
    paragraph: list[str] = []
    is_list = False
    for line in [*lines, ""]:
        is_item = _LIST_MARK.match(line) is not None
        if paragraph and not is_item and (not line.strip() or paragraph[-1].endswith(_LINE_ENDS)):
            whole = " ".join(paragraph)
            yield from [whole] if is_list else sentences(whole)
            paragraph, is_list = [], False
        if line.strip():
            paragraph.append(" ".join(line.split()))
            is_list = is_list or is_item


def _is_open(text: str) -> bool:
    """Return whether a quotation or a bracket is not closed."""
    for first, last in (("“", "”"), ("„", "“"), ("«", "»"), ("(", ")"), ("[", "]"), ("「", "」")):
        if text.count(first) > text.count(last):
            return True
    return text.count('"') % 2 == 1


def _tokens(text: str) -> list[str]:
    """Return the words, numbers and signs of a text in order, without the case of the first one and the final marks."""
    tokens = _TOKEN.findall(text.replace("’", "'"))
    while tokens and tokens[-1] in _FINAL_MARKS:
        tokens.pop()
    return [*map(str.casefold, tokens[:1]), *tokens[1:]]
