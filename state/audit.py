"""What an audit tells: ids, seqs and codes, never what a memory says."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal
from uuid import UUID

Problem = Literal[
    "hash", "chain", "gap", "head", "contents", "erased", "replay", "relation", "entry", "cut", "rewritten", "anchor"
]

EXPLANATIONS: Final = MappingProxyType[Problem, str](
    {
        "hash": "this row of the history is not as it was written",
        "chain": "the row before this one is not the one it was written after",
        "gap": "rows of the history are missing before this one",
        "head": "the head names another row than the newest of the history",
        "contents": "what the history holds of this change is gone, or not as it was written",
        "erased": "what was erased is back in the history",
        "replay": "this memory is not as its history left it",
        "relation": "a relation of this memory is not as the history left it",
        "entry": "what a search sees of this memory is not what its state allows",
        "cut": "this row was anchored, and the history has none of this number any more",
        "rewritten": "this row was anchored with another hash: the history was written anew",
        "anchor": "this line of the anchors is none, or was not signed with this key",
    }
)


@dataclass(frozen=True, kw_only=True)
class AuditProblem:
    """One thing that is not as it should be, and where."""

    problem: Problem
    #: None: a line of a file with anchors that names nobody.
    agent_id: str | None
    seq: int | None = None
    memory_id: UUID | None = None
    #: The line of the file with anchors.
    line: int | None = None

    @property
    def explanation(self) -> str:
        """What it means, in a sentence."""
        return EXPLANATIONS[self.problem]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The newest row of an agent's history."""

    seq: int
    hash: bytes


@dataclass(frozen=True, kw_only=True)
class ChainRow:
    """One row of the chain; of a person's own with what was hashed, and the contents where they still exist."""

    seq: int
    prev: bytes
    hash: bytes
    #: None: somebody else's.
    text: str | None
    salt: bytes | None
    #: As the database writes it, for the digests are of that.
    before: str | None
    after: str | None
