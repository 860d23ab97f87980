"""The shortest way to search as the service does, and to store what is searched."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mnemic.operations.recall.context import SearchSetup, search
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Found, IndexedText, Message
from mnemic.state.settings import Settings
from mnemic.storage import inbox
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.worlds import MODEL, identity

ME = identity(session="s1")
CATEGORIES = ("profile", "knowledge", "tasks", "procedural", "journal", "message")


async def ask(
    db: Database,
    question: str,
    vector: Sequence[float] | None = None,
    *,
    who: Identity = ME,
    also: Sequence[str] = (),
    allowed: Sequence[str] = CATEGORIES,
    rag_lengths: Mapping[str, int] = MappingProxyType({}),
    settings: Settings | None = None,
    top_k: int = 10,
    **request: Any,
) -> list[Found]:
    """One search; what is left of the arguments are fields of the request."""
    wanted = MemoryQuery(query=question, top_k=top_k, **request)
    setup = SearchSetup(model=MODEL, settings=settings or Settings(), rag_lengths=rag_lengths)
    async with db.scoped(who, also=also) as scoped:
        return await search(scoped, setup, wanted, vector, allowed if wanted.categories is None else wanted.categories)


async def searched(
    scoped: ScopedTransaction,
    request: MemoryQuery,
    vector: Sequence[float] | None = None,
    categories: Sequence[str] = CATEGORIES,
    *,
    model: str = MODEL,
) -> list[Found]:
    """One search in a transaction that is open, with the default settings."""
    return await search(scoped, SearchSetup(model=model, settings=Settings()), request, vector, categories)


async def keep(db: Database, said: Message, vector: tuple[float, ...] | None = None, *, who: Identity = ME) -> None:
    """A message that was observed and is searched."""
    async with db.scoped(who) as scoped:
        await inbox.observe(scoped, said.session_id, [said])
        text = IndexedText(item_id=said.id, text=f"{said.author}: {said.content}", vector=vector)
        await inbox.index_messages(scoped, MODEL, [text])


def contents(results: Sequence[Found]) -> list[str]:
    """Their texts in order."""
    return [item.content for item in results]
