"""What became of memories since a revision: each with its sign, for whoever may read them, and whoever did it."""

from mnemic.service.memory import Mnemic
from mnemic.state.query import Bullet
from tests.support.fixtures import memory as memory
from tests.support.fixtures import model as model
from tests.support.fixtures import resources as resources
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
OWN = ANA.model_copy(update={"role": "owner"})
BEES = "Ana keeps bees."


async def test_what_is_remembered_and_forgotten_is_told_once_each(memory: Mnemic) -> None:
    begun = await memory.updates(OWN)
    assert (begun.revision, begun.bullets) == (0, ())
    kept = await memory.remember(ANA, BEES, category="interests")
    assert kept.id
    told = await memory.updates(OWN, begun.revision)
    assert told.bullets == (Bullet(sign="+created", category="interests", text=BEES),)
    assert (await memory.updates(OWN, told.revision)).bullets == ()
    assert (await memory.updates(OWN)).bullets == ()  # where it stands, and nothing else

    await memory.forget(ANA, kept.id)
    gone = await memory.updates(OWN, told.revision)
    assert gone.bullets == (Bullet(sign="~soft-deleted", category="interests", text=BEES),)
    assert gone.revision > told.revision


async def test_of_many_changes_none_is_left_out(memory: Mnemic) -> None:
    for number in range(7):
        await memory.remember(ANA, f"Ana owns boat number {number} of the harbour {number * 11}.", category="projects")
    assert len((await memory.updates(OWN, 0)).bullets) == 7


async def test_nobody_else_is_told_and_no_role_more_than_it_reads(memory: Mnemic) -> None:
    await memory.remember(ANA, BEES, category="interests")
    assert (await memory.updates(identity("bob", session="s1"), 0)).bullets == ()
    assert (await memory.updates(ANA.model_copy(update={"role": "planner"}), 0)).bullets == ()
    assert len((await memory.updates(ANA, 0)).bullets) == 1
