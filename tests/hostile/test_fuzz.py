"""Junk of any shape at the entrances: typed errors alone, and clean text alone in the database."""

import uuid
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemic import Mnemic
from tests.hostile.cells import stored_texts, unclean, wrong_with
from tests.hostile.entrances import ENTRANCES
from tests.support.worlds import identity

_WORDS = st.text(st.characters(), max_size=40)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.binary(max_size=8) | st.datetimes()
_FIELDS = st.sampled_from(["role", "content", "author", "name", "user", "time", "id", "type", "text", "agent_id"])
_ROLES = st.sampled_from(["user", "assistant", "system", "tool", "human"])
JUNK = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_FIELDS | _WORDS, inner, max_size=5)
        | st.fixed_dictionaries({"role": _ROLES, "content": inner}, optional={"id": inner, "time": inner})
    ),
    max_leaves=12,
)
FUZZED = [
    "observe: messages",
    "observe: a message",
    "observe: content",
    "observe: LangChain's content",
    "recall: question",
    "query: query",
    "configure_agent: recall_limit",
    "configure_scope: name",
    "configure_scope: threshold",
    "graphs.recall: context",
]


@pytest.mark.thorough
@settings(max_examples=400, derandomize=True)
@given(entrance=st.sampled_from(FUZZED), junk=JUNK)
async def test_junk_is_refused_or_cleaned(
    memory: Mnemic, superuser: psycopg.Connection, entrance: str, junk: Any
) -> None:
    who = identity("ana", session=uuid.uuid4().hex)
    assert await wrong_with(superuser, partial(ENTRANCES[entrance], memory, who, junk)) is None
    assert [what for text in stored_texts(superuser) if (what := unclean(text))] == []
