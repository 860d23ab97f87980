"""What was merged with something that is erased comes back into use: with a control for each rule about it.

What shares words with a memory that is erased by its id goes with it; these merges leave none of the words.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import pytest

from mnemic.state.errors import MnemicError
from mnemic.state.records import NewMemory
from mnemic.storage import refinements
from mnemic.storage.database import Database
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction
from tests.support.erasing import ANA, CANARY, erase, erase_person, forget, form, places, problems, states
from tests.support.mutating import mutate
from tests.support.refinements import begun, within
from tests.support.rollbacks import undo_within
from tests.support.server import Clone
from tests.support.worlds import identity, memory, message, remember

BO = identity("bo", session="s9")
OFFICE, MINE = "agent:harbor", "user:ana"
Shown = Callable[[Database, Clone, psycopg.Connection], Awaitable[None]]


def core(content: str, *, key: str = MINE) -> NewMemory:
    return memory(content, kind="core", key=key)


async def merged(db: Database, session: Claim, text: str, *ids: UUID) -> UUID:
    """What is merged into one memory, in a refinement that runs."""

    made: list[UUID | None] = []

    async def act(scoped: ScopedTransaction) -> None:
        ledger = await refinements.ledger(scoped)
        made.append(await refinements.merge(scoped, [one for one in ledger if one.id in ids], "profile", text))

    await within(db, ANA, session, act, reason="merge")
    assert made[0]
    return made[0]


async def test_what_others_said_is_in_use_after_the_erasure_of_whom_it_was_merged_with(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    hers = memory(f"nine {CANARY} forks", kind="core", key=OFFICE, sources=[said := message(f"nine {CANARY}")])
    his = core("six cups", key=OFFICE)
    third = core("two pans", key=OFFICE)
    await form(db, ANA, [said], hers)
    await remember(db, BO, his, third)
    session = await begun(db, ANA, OFFICE)
    first = await merged(db, session, f"nine {CANARY} forks, six cups", hers.id, his.id)
    second = await merged(db, session, f"{CANARY}, six cups, two pans", first, third.id)
    assert states(superuser, hers.id, his.id, first, third.id, second) == ["soft_deleted"] * 4 + ["active"]

    assert await erase_person(db) == {hers.id, first, second}

    assert (
        states(superuser, hers.id, his.id, third.id, first, second) == ["purged", "active", "active"] + ["purged"] * 2
    )
    assert places(superuser) == set()
    assert problems(clean_db) == []


async def test_what_was_merged_comes_back_when_the_memory_that_it_became_is_erased_by_its_id(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    """Only what became that very memory, and only where nobody says it by now; of a core memory and a thought, both."""
    one, other, again = core("nine forks"), core("six cups"), core("two pans")
    thought = memory("two pans", kind="reflection")
    await remember(db, ANA, one, other, again, thought)
    session = await begun(db, ANA)
    first = await merged(db, session, "much cutlery", one.id, other.id)
    second = await merged(db, session, "the whole kitchen", first, again.id, thought.id)
    await remember(db, ANA, twin := core("two pans"))

    assert await erase(db, second) == [second]
    assert states(superuser, one.id, other.id, first) == ["soft_deleted", "soft_deleted", "active"]
    assert states(superuser, again.id, twin.id, thought.id) == ["soft_deleted", "active", "active"]
    assert await erase(db, first) == [first]
    assert states(superuser, one.id, other.id, second) == ["active", "active", "purged"]
    assert problems(clean_db) == []


async def test_of_what_was_merged_twice_in_the_same_words_one_comes_back(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    made = []
    await remember(db, ANA, core("Ana sails."))
    session = await begun(db, ANA)
    for text in ("much cutlery", "cutlery galore"):
        one, other = core("nine forks"), core("six cups")
        await remember(db, ANA, one, other)
        made.append(await merged(db, session, text, one.id, other.id))

    assert {*await erase(db, *made)} == {*made}

    said = superuser.execute("select content from mnemic.memories where state = 'active' order by content").fetchall()
    assert said == [("Ana sails.",), ("nine forks",), ("six cups",)]
    assert problems(clean_db) == []


async def test_what_was_forgotten_merged_stays_so_when_that_is_erased(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    one, other = core("nine forks"), core("six cups")
    await remember(db, ANA, one, other)
    both = await merged(db, await begun(db, ANA), "much cutlery", one.id, other.id)
    await forget(db, both)

    await erase(db, both)

    assert states(superuser, one.id, other.id, both) == ["soft_deleted", "soft_deleted", "purged"]
    assert problems(clean_db) == []


async def test_what_was_forgotten_merged_twice_stays_so_when_a_part_of_it_is_erased(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    hers, his, third = (
        core(f"nine {CANARY} forks", key=OFFICE),
        core("six cups", key=OFFICE),
        core("two pans", key=OFFICE),
    )
    await remember(db, ANA, hers)
    await remember(db, BO, his, third)
    session = await begun(db, ANA, OFFICE)
    first = await merged(db, session, "much cutlery here", hers.id, his.id)
    second = await merged(db, session, "the whole kitchen", first, third.id)
    await forget(db, second)

    await erase(db, first, second, keys=[*ANA.scope_keys])

    assert states(superuser, his.id, third.id, first, second) == ["soft_deleted"] * 2 + ["purged"] * 2
    assert problems(clean_db) == []


async def test_what_a_living_memory_says_still_does_not_come_back_with_what_lay_between(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    one, other, again = core("nine forks"), core("six cups"), core("two pans")
    await remember(db, ANA, one, other, again)
    session = await begun(db, ANA)
    first = await merged(db, session, "much cutlery", one.id, other.id)
    second = await merged(db, session, "the whole kitchen", first, again.id)

    assert await erase(db, first) == [first]

    assert states(superuser, one.id, other.id, second) == ["soft_deleted", "soft_deleted", "active"]
    assert await erase(db, second) == [second]
    assert states(superuser, one.id, other.id, again.id) == ["active"] * 3
    assert problems(clean_db) == []


async def test_a_word_that_a_merge_left_out_is_erased_where_the_session_wrote_it_instead(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    hers = memory(
        f"Ana keeps a {CANARY} in the shed", kind="core", key=OFFICE, sources=[said := message(f"my {CANARY}")]
    )
    his, third = core("The shed key hangs by the door", key=OFFICE), core("The door is green", key=OFFICE)
    await form(db, ANA, [said], hers)
    await remember(db, BO, his, third)
    session = await begun(db, ANA, OFFICE)
    both = await merged(db, session, "Ana keeps an animal in the shed; its key hangs by the door", hers.id, his.id)

    async def rewrite(scoped: ScopedTransaction) -> None:
        (entry,) = [one for one in await refinements.ledger(scoped) if one.id == third.id]
        assert await refinements.rewrite(scoped, entry, f"Green door, {CANARY}", model="", vector=None)

    await within(db, ANA, session, rewrite)

    assert await erase_person(db) == {hers.id, both, third.id}

    assert states(superuser, his.id) == ["active"]
    assert places(superuser) == set()
    assert problems(clean_db) == []


async def test_an_erasure_stands_in_no_undos_way(db: Database, clean_db: Clone, superuser: psycopg.Connection) -> None:
    one, other = core("nine forks"), core("six cups")
    await remember(db, ANA, one, other)
    session = await begun(db, ANA)
    both = await merged(db, session, "much cutlery", one.id, other.id)
    await erase(db, both)
    async with db.scoped(ANA) as scoped:
        made = await refinements.operations(scoped, [MINE], session.id)
        await undo_within(scoped, [MINE], made, cascade=False, skip_erased=False, apply=True)

    assert states(superuser, one.id, other.id, both) == ["active", "active", "purged"]
    assert problems(clean_db) == []


async def test_a_merge_that_was_undone_and_done_again_is_one(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    one, other = core("nine forks"), core("six cups")
    await remember(db, ANA, one, other)
    both = await merged(db, await begun(db, ANA), "much cutlery", one.id, other.id)
    for expected in ("active", "soft_deleted"):
        last = superuser.execute("select op_id from mnemic.history order by seq desc limit 1").fetchone()
        assert last
        async with db.scoped(ANA) as scoped:
            await undo_within(scoped, [MINE], [last[0]], cascade=False, skip_erased=False, apply=True)
        assert states(superuser, one.id, other.id) == [expected] * 2

    await erase(db, both)

    assert states(superuser, one.id, other.id, both) == ["active", "active", "purged"]
    assert problems(clean_db) == []


#: A rule about what comes back: the test that shows it, the function, its text, what stands there without it.
RULES: dict[str, tuple[Shown, str, str, str]] = {
    "a person's erasure gives back": (
        test_what_others_said_is_in_use_after_the_erasure_of_whom_it_was_merged_with,
        "erase_contents", "m.state = 'soft_deleted'", "false",
    ),
    "only what is out of use comes back": (
        test_what_a_living_memory_says_still_does_not_come_back_with_what_lay_between,
        "erase_contents", "and m.state = 'soft_deleted'", "",
    ),
    "what lies between is looked through": (
        test_what_a_living_memory_says_still_does_not_come_back_with_what_lay_between,
        "erase_contents", "m.id = r.to_id and m.state = 'purged'", "false",
    ),
    "the relation tells": (
        test_a_merge_that_was_undone_and_done_again_is_one,
        "erase_contents", "'same_as') and not is_in_use", "'same_as') and false and not is_in_use",
    ),
    "of what a living memory says none comes back": (
        test_what_was_merged_comes_back_when_the_memory_that_it_became_is_erased_by_its_id,
        "erase_contents", "where not exists (select from living_at", "where true or not exists (select from living_at",
    ),
    "a thought is no twin of a commitment": (
        test_what_was_merged_comes_back_when_the_memory_that_it_became_is_erased_by_its_id,
        "erase_contents", "group by place_of(m)", "group by m.scope_key",
    ),
    "of the same words one comes back": (
        test_of_what_was_merged_twice_in_the_same_words_one_comes_back,
        "erase_contents", "group by place_of(m)", "group by m.id",
    ),
    "what was forgotten stays so": (
        test_what_was_forgotten_merged_stays_so_when_that_is_erased,
        "is_in_use", "= 'DELETE')", "= '')",
    ),
    "what was forgotten merged twice, too": (
        test_what_was_forgotten_merged_twice_stays_so_when_a_part_of_it_is_erased,
        "is_in_use", "r.relation_type in ('merged_from'", "r.relation_type in (''",
    ),
    "what a living memory stands for stays out of use": (
        test_what_a_living_memory_says_still_does_not_come_back_with_what_lay_between,
        "is_in_use", "o.state = 'active'", "false",
    ),
    "what an erasure gave back is no later change": (
        test_an_erasure_stands_in_no_undos_way,
        "operations_after", "and l.reason <> 'erasure'", "",
    ),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
async def test_each_rule_about_what_comes_back_is_needed(fresh_db: Clone, rule: str) -> None:
    shown_by, function, text, wrong = RULES[rule]
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, function, text, wrong)
        async with fresh_db.database() as db:
            with pytest.raises(
                (AssertionError, MnemicError),
                match=r"active|stored the same|later operations|does not change",
            ):
                await shown_by(db, fresh_db, superuser)
