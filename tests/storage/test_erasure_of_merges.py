"""What was merged with something that is erased comes back into use: with a control for each rule about it.

What shares words with a memory that is erased by its id goes with it; these merges leave none of the words.
"""

from uuid import UUID

import pytest

from mnemic.memory.governance import rollback
from mnemic.state.errors import MnemicError
from mnemic.state.governance import RollbackOptions
from mnemic.state.records import NewMemory
from mnemic.storage import memories, refinements
from mnemic.storage.database import Database
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction
from tests.support.erasing import ANA, CANARY, Rule, World, assert_is_needed, erase, erase_person, forget, form
from tests.support.erasing import world as world
from tests.support.refinements import begun, within
from tests.support.rollbacks import owning, undo
from tests.support.server import Clone
from tests.support.worlds import identity, memory, message, remember

BO = identity("bo", session="s9")
OFFICE, MINE = "agent:harbor", "user:ana"


def core(content: str, *, key: str = MINE) -> NewMemory:
    return memory(content, kind="core", key=key)


async def merged(db: Database, session: Claim, text: str, *ids: UUID) -> UUID:
    """What is merged into one memory, in a refinement that runs."""

    made: list[UUID | None] = []

    async def act(tx: ScopedTransaction) -> None:
        ledger = await refinements.read_ledger(tx)
        made.append(await refinements.merge(tx, [entry for entry in ledger if entry.id in ids], "profile", text))

    await within(db, ANA, session, act, reason="merge")
    assert made[0]
    return made[0]


async def merged_once(world: World) -> tuple[UUID, UUID, UUID, Claim]:
    """Two memories of Ana's and the one that they became, in a refinement that runs."""
    forks, cups = core("nine forks"), core("six cups")
    await remember(world.db, ANA, forks, cups)
    session = await begun(world.db, ANA)
    return forks.id, cups.id, await merged(world.db, session, "much cutlery", forks.id, cups.id), session


async def in_the_office(world: World, hers: str, *his: str) -> tuple[UUID, UUID, UUID, Claim]:
    """What Ana said and what Bo told of, shared by all, and a refinement of it that runs."""
    anas = memory(hers, kind="core", key=OFFICE, sources=[sent := message(f"my {CANARY}")])
    bos = [core(text, key=OFFICE) for text in his]
    await form(world.db, ANA, [sent], anas)
    await remember(world.db, BO, *bos)
    return anas.id, bos[0].id, bos[1].id, await begun(world.db, ANA, OFFICE)


async def test_a_journal_of_the_scope_key_that_was_written_since_goes_too(world: World) -> None:
    hers, *_ = await in_the_office(world, f"nine {CANARY} forks", "six cups", "two pans")
    journal, other = (memory(f"merged {n} forks", kind="journal", key=key) for n, key in ((9, OFFICE), (2, "user:bo")))
    await remember(world.db, BO, journal, other)

    assert await erase_person(world.db) == {hers, journal.id}

    assert world.states(other.id) == ["active"]


async def test_words_of_others_return_after_the_erasure_of_a_merged_person(world: World) -> None:
    hers, his, third, session = await in_the_office(world, f"nine {CANARY} forks", "six cups", "two pans")
    first = await merged(world.db, session, f"nine {CANARY} forks, six cups", hers, his)
    second = await merged(world.db, session, f"{CANARY}, six cups, two pans", first, third)
    assert world.states(hers, his, first, third, second) == ["soft_deleted"] * 4 + ["active"]

    assert await erase_person(world.db) == {hers, first, second}

    assert world.states(hers, his, third, first, second) == ["purged", "active", "active"] + ["purged"] * 2
    assert world.places() == set()


async def test_merged_memories_return_when_their_merge_is_erased_by_id(world: World) -> None:
    """Only what became that very memory, and only where nobody says it by now; of a core memory and a thought, both."""
    forks, cups, first, session = await merged_once(world)
    again, thought = core("two pans"), memory("two pans", kind="reflection")
    await remember(world.db, ANA, again, thought)
    second = await merged(world.db, session, "the whole kitchen", first, again.id, thought.id)
    await remember(world.db, ANA, twin := core("two pans"))

    assert await erase(world.db, second) == [second]
    assert world.states(forks, cups, first) == ["soft_deleted", "soft_deleted", "active"]
    assert world.states(again.id, twin.id, thought.id) == ["soft_deleted", "active", "active"]
    assert await erase(world.db, first) == [first]
    assert world.states(forks, cups, second) == ["active", "active", "purged"]


async def test_of_what_was_merged_twice_in_the_same_words_one_comes_back(world: World) -> None:
    made = []
    await remember(world.db, ANA, core("Ana sails."))
    session = await begun(world.db, ANA)
    for text in ("much cutlery", "cutlery galore"):
        forks, cups = core("nine forks"), core("six cups")
        await remember(world.db, ANA, forks, cups)
        made.append(await merged(world.db, session, text, forks.id, cups.id))

    assert {*await erase(world.db, *made)} == {*made}

    sent = world.superuser.execute(
        "select content from mnemic.memories where state = 'active' order by content"
    ).fetchall()
    assert sent == [("Ana sails.",), ("nine forks",), ("six cups",)]


async def test_forgotten_memory_merged_twice_stays_so_when_a_part_is_erased(world: World) -> None:
    hers, his, third, session = await in_the_office(world, f"nine {CANARY} forks", "six cups", "two pans")
    first = await merged(world.db, session, "much cutlery here", hers, his)
    second = await merged(world.db, session, "the whole kitchen", first, third)
    await forget(world.db, second)

    await erase(world.db, first, second, keys=[*ANA.scope_keys])

    assert world.states(his, third, first, second) == ["soft_deleted"] * 2 + ["purged"] * 2


async def test_text_of_an_active_memory_does_not_return_with_intermediate_ones(world: World) -> None:
    forks, cups, first, session = await merged_once(world)
    await remember(world.db, ANA, again := core("two pans"))
    second = await merged(world.db, session, "the whole kitchen", first, again.id)

    assert await erase(world.db, first) == [first]

    assert world.states(forks, cups, second) == ["soft_deleted", "soft_deleted", "active"]
    assert await erase(world.db, second) == [second]
    assert world.states(forks, cups, again.id) == ["active"] * 3


async def test_word_left_out_by_a_merge_is_erased_where_the_session_moved_it(world: World) -> None:
    texts = (f"Ana keeps a {CANARY} in the shed", "The shed key hangs by the door", "The door is green")
    hers, his, third, session = await in_the_office(world, *texts)
    text = "Ana keeps an animal in the shed; its key hangs by the door"
    both = await merged(world.db, session, text, hers, his)

    async def rewrite(tx: ScopedTransaction) -> None:
        (entry,) = [found for found in await refinements.read_ledger(tx) if found.id == third]
        await memories.rewrite(tx, entry, f"Green door, {CANARY}")

    await within(world.db, ANA, session, rewrite)

    assert await erase_person(world.db) == {hers, both, third}

    assert world.states(his) == ["active"]
    assert world.places() == set()


async def test_an_erasure_stands_in_no_undos_way(world: World) -> None:
    forks, cups, both, session = await merged_once(world)
    await erase(world.db, both)
    await rollback.undo(owning(world.db, ANA, MINE), None, RollbackOptions(), refinement_id=session.id)

    assert world.states(forks, cups, both) == ["active", "active", "purged"]


async def test_no_rollback_does_a_merge_again_whose_memory_was_erased_meanwhile(world: World) -> None:
    forks, cups, both, session = await merged_once(world)
    ana = owning(world.db, ANA, MINE)
    undone = await rollback.undo(ana, None, RollbackOptions(), refinement_id=session.id)
    await erase(world.db, both)
    assert undone.op_id
    await undo(ana, undone.op_id, skip_erased=True)

    assert world.states(forks, cups, both) == ["active", "active", "purged"]


async def test_a_merge_that_was_undone_and_done_again_is_one(world: World) -> None:
    forks, cups, both, _ = await merged_once(world)
    for expected in ("active", "soft_deleted"):
        last = world.superuser.execute("select op_id from mnemic.history order by revision desc limit 1").fetchone()
        assert last
        await undo(owning(world.db, ANA, MINE), last[0])
        assert world.states(forks, cups) == [expected] * 2

    await erase(world.db, both)

    assert world.states(forks, cups, both) == ["active", "active", "purged"]


#: A rule about what comes back.
RULES: dict[str, Rule] = {
    "a person's erasure gives back": (
        test_words_of_others_return_after_the_erasure_of_a_merged_person,
        "replaced_memories", "m.id = r.to_id and m.state = 'soft_deleted'", "false",
    ),
    "what lies between is looked through": (
        test_text_of_an_active_memory_does_not_return_with_intermediate_ones,
        "replaced_memories", "and (m.state = 'purged' or m.withdrawn_by is not null)", "and false",
    ),
    "the relation tells": (
        test_a_merge_that_was_undone_and_done_again_is_one,
        "replaced_memories", "and not is_active_or_deleted", "and false and not is_active_or_deleted",
    ),
    "of what a living memory says none comes back": (
        test_merged_memories_return_when_their_merge_is_erased_by_id,
        "reactivate",
        "and not exists"
        " (select from find_active_duplicate(p_agent, m.scope_key, m.kind, m.content_hash, m.subject_user_id))", "",
    ),
    "a thought is no twin of a commitment": (
        test_merged_memories_return_when_their_merge_is_erased_by_id,
        "reactivate", "group by uniqueness_key(m)", "group by m.scope_key",
    ),
    "of the same words one comes back": (
        test_of_what_was_merged_twice_in_the_same_words_one_comes_back,
        "reactivate", "group by uniqueness_key(m)", "group by m.id",
    ),
    "what was forgotten stays so": (
        test_forgotten_memory_merged_twice_stays_so_when_a_part_is_erased,
        "is_active_or_deleted", "h.event in ('DELETE', 'TTL') and", "h.event in ('') and",
    ),
    "what was forgotten merged twice, too": (
        test_forgotten_memory_merged_twice_stays_so_when_a_part_is_erased,
        "is_active_or_deleted", "r.relation_type in ('merged_from'", "r.relation_type in (''",
    ),
    "what a living memory stands for stays out of use": (
        test_text_of_an_active_memory_does_not_return_with_intermediate_ones,
        "is_active_or_deleted", "o.state = 'active'", "false",
    ),
    "what an erasure gave back is no later change": (
        test_an_erasure_stands_in_no_undos_way,
        "operations_after", "and l.reason not in ('erasure', 'retention')", "",
    ),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
async def test_each_rule_about_what_comes_back_is_needed(fresh_db: Clone, rule: str) -> None:
    told = r"active|stored the same|later operations|does not change"
    await assert_is_needed(fresh_db, RULES[rule], MnemicError, match=told)
