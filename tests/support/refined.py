"""A refinement as a scripted agent does it: all core memories of a scope key merged into one."""

from collections.abc import Sequence

from mnemic import Identity, Mnemic
from mnemic.state.records import NewMemory
from mnemic.state.refinement import RefinementResult
from mnemic.storage.database import Database
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.rollbacks import ANA
from tests.support.worlds import memory as drafted
from tests.support.worlds import remember


async def core(db: Database, texts: Sequence[str], *, who: Identity = ANA, key: str = "user:ana") -> list[NewMemory]:
    """Core memories, stored in one operation."""
    new = [drafted(text, kind="core", key=key) for text in texts]
    await remember(db, who, *new)
    return new


def script(model: LoopbackModel, count: int, into: str, *, protects: bool = False) -> None:
    """Has the agent merge the first so many of its ledger into one, protect that if told to, and end the session."""
    merge = ("consolidate_memories", {"ids_to_merge": list(range(1, count + 1)), "new_content": into})
    protecting = [calling(("protect_memory", {"id": count + 1}))] if protects else []
    ending = calling(("complete_refinement", {"summary": "All of it put together."}))
    model.answer(offering("complete_refinement"), calling(merge), *protecting, ending)


async def refined(
    memory: Mnemic, model: LoopbackModel, *texts: str, into: str, protects: bool = False
) -> RefinementResult:
    """Core memories of Ana's, merged."""
    await core(memory._resources.database, texts)
    script(model, len(texts), into, protects=protects)
    return await memory.refine(ANA, "user:ana", force=True)
