"""Attribution of a shared memory: the author, and the typed sentence that other readers see with the text."""

from typing import NamedTuple, Protocol

from mnemic.state.identity import split_scope_key


class TypedText(Protocol):
    """Text of a memory with the sentence that it rests on."""

    @property
    def content(self) -> str:
        """Text of the memory."""

    @property
    def said(self) -> str | None:
        """Whole sentence that a member typed and that the memory rests on; None if unknown."""


class Attributable(TypedText, Protocol):
    """Text of a memory with its origin."""

    @property
    def scope_key(self) -> str:
        """Scope key that the memory belongs to."""

    @property
    def author(self) -> str | None:
        """User id of the author; None for a memory that several people contributed to."""


class Attribution(NamedTuple):
    """Author of a shared memory as its reader sees it."""

    author: str
    #: Typed sentence; None if the reader wrote it, if the text repeats it, or if it is unknown.
    said: str | None = None


def attribution_for(reader: str | None, memory: Attributable) -> Attribution | None:
    """Return the attribution that this user sees, or None for a memory that is not shared or has no single author."""
    if memory.author is None or not is_shared(memory.scope_key):
        return None
    if memory.author == reader:
        return Attribution(memory.author)
    return Attribution(memory.author, distinct_sentence(memory))


def distinct_sentence(memory: TypedText) -> str | None:
    """Return the typed sentence of a memory, or None if it is unknown or if the text repeats it."""
    if memory.said is None or memory.said.split() == memory.content.split():
        return None
    return memory.said


def is_shared(scope_key: str) -> bool:
    """Whether several people read the memories of the scope key."""
    return split_scope_key(scope_key)[0] in ("group", "agent")
