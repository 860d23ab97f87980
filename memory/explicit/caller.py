"""Callers of explicit writes: the trusted host, or a model within a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass

from mnemic.state.records import Message


@dataclass(frozen=True)
class TrustedCaller:
    """Code of the host, or a person at a page: a text counts as typed by the identity's user."""


@dataclass(frozen=True)
class ModelCaller:
    """A model: its text is shared only if the user typed the same sentence in the conversation."""

    #: Messages of the conversation; empty if nothing of it may be shared.
    conversation: Sequence[Message] = ()


Caller = TrustedCaller | ModelCaller
