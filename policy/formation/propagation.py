"""Rules on memories that are raised to a group or to all users: typed sentences decide, and no model."""

from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

from mnemic.policy.formation.sharing import Draft, content_tokens, is_typed, may_share
from mnemic.policy.text.details import details
from mnemic.policy.text.questions import is_question, spoken_sentences
from mnemic.policy.text.words import folded_words, stem
from mnemic.state.identity import Scope, split_scope_key
from mnemic.state.records import Memory, Message

#: Letters of a word that both authors must have typed of a memory for all users. Shorter ones are mostly articles.
_LONG_WORD: Final = 4


class Claim(NamedTuple):
    """A memory with the messages of users that it rests on, also through merges."""

    memory: Memory
    messages: Sequence[Message]


class Evidence(NamedTuple):
    """A message with a typed sentence that covers a whole text."""

    message: Message
    #: Of the memory that rests on the message.
    scope_key: str

    @property
    def author(self) -> str:
        """The user who typed it."""
        return self.message.user_id or ""


def group_evidence(
    claim: Claim, group: str, session_groups: Mapping[str, str], names: Sequence[str], personal: Set[str]
) -> list[Evidence]:
    """Return the messages that prove that a user's memory may be raised to a group; none if it may not.

    Args:
        claim: the memory of the user.
        group: id of the group.
        session_groups: the group of each session in which every run had exactly one.
        names: further words that count as typed: names of the group.
        personal: categories that are a person's own.
    """
    owner = split_scope_key(claim.memory.scope_key)[1]
    typed = [
        message
        for message in claim.messages
        if session_groups.get(message.session_id) == group and is_typed(message, {owner})
    ]
    return _permitted(claim, "group", _proofs(claim.memory.content, typed, names), personal)


def agent_evidence(text: str, claim: Claim, personal: Set[str]) -> list[Evidence]:
    """Return the messages of a claim whose authors typed all of a text; none if the claim may not be raised."""
    typed = [message for message in claim.messages if is_typed(message, {message.user_id})]
    return _permitted(claim, "agent", _proofs(text, typed, None), personal)


def independent_pair(
    own: Sequence[Evidence], others: Sequence[Evidence], strangers: Set[tuple[str, str]]
) -> tuple[Evidence, Evidence] | None:
    """Return evidence of two groups by different authors, or of two strangers; None without such.

    Args:
        own: evidence for the memory.
        others: evidence for another memory.
        strangers: pairs of authors, of the first and of the second, without a common group.
    """
    for first in own:
        for second in others:
            if first.author == second.author:
                continue
            if _of_two_groups(first, second) or (first.author, second.author) in strangers:
                return first, second
    return None


def covers(sentence: str, text: str, names: Sequence[str] = ()) -> bool:
    """Return whether a typed sentence covers a text.

    Each telling word of the text is in the sentence; without names, each word of at least four letters. Names, numbers
    and negations agree both ways. A question covers nothing.

    Args:
        sentence: typed by a user.
        text: of a memory.
        names: words that the text may have beside those of the sentence.
    """
    claimed = content_tokens(text) or content_tokens(text, 1)
    if not claimed or is_question(sentence):
        return False
    if not names and _long_words(text) - _long_words(sentence):
        return False
    said, in_text = details(sentence), details(text)
    allowed = content_tokens("\n".join([sentence, *names]), 1)
    known = content_tokens("\n".join([text, *names]), 1)
    return (
        claimed <= allowed
        and set(said.numbers) == set(in_text.numbers)
        and said.negated == in_text.negated
        and content_tokens(" ".join(said.names), 1) <= known
    )


def _long_words(text: str) -> set[str]:
    """Return the stems of all words but the shortest: `after` is a function word, and differs from `before`."""
    return {stem(word) for word in folded_words(text) if len(word) >= _LONG_WORD}


def _proofs(text: str, typed: Sequence[Message], names: Sequence[str] | None) -> list[Message]:
    """Return the messages with a sentence that covers a text.

    Args:
        text: of a memory.
        typed: messages of users.
        names: words that count as typed, with the author's name; None for the agent scope: neither counts.
    """
    found = []
    for message in typed:
        allowed = () if names is None else (message.author, *names)
        if any(covers(sentence, text, allowed) for sentence in spoken_sentences(message.typed_text)):
            found.append(message)
    return found


def _permitted(claim: Claim, scope: Scope, proofs: Sequence[Message], personal: Set[str]) -> list[Evidence]:
    memory = claim.memory
    draft = Draft(scope, memory.content, memory.category, memory.private)
    authors = {message.user_id for message in proofs}
    if not may_share(draft, proofs, authors, personal):
        return []
    return [Evidence(message, memory.scope_key) for message in proofs]


def _of_two_groups(first: Evidence, second: Evidence) -> bool:
    are_groups = first.scope_key.startswith("group:") and second.scope_key.startswith("group:")
    return are_groups and first.scope_key != second.scope_key
