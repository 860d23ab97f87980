"""After random histories the erasure of one memory that shows a canary leaves it nowhere: with controls."""

import pytest

from mnemic.state.records import Memory
from mnemic.storage import erasure
from mnemic.storage.database import Database
from tests.faults.erased_histories import KEY, OWN, History
from tests.faults.test_erasure_canaries import dumped
from tests.support.audited import problems
from tests.support.mutating import mutate
from tests.support.server import Clone

pytestmark = pytest.mark.thorough


async def histories(db: Database, many: int, *, ties_repeats: bool = True) -> list[History]:
    played = [History(db, number, ties_repeats=ties_repeats) for number in range(many)]
    for one in played:
        await one.play(14)
        await erasure.erase(db, one.who, OWN, await one.chosen())
    return played


def shown(clone: Clone, played: list[History]) -> list[str]:
    dump = dumped(clone)
    return [one.canary for one in played if one.canary in dump]


@pytest.mark.parametrize("many", [15, pytest.param(200, marks=pytest.mark.slow)])
async def test_after_any_history_nothing_is_left_of_what_was_erased(db: Database, clean_db: Clone, many: int) -> None:
    played = await histories(db, many)
    left = shown(clean_db, played)
    assert left == [], {one.canary: one.done for one in played if one.canary in left}
    others: list[Memory] = []
    for one in played[:: max(1, many // 10)]:
        listed: list[Memory] = [*await one.listed()]
        assert not [item for item in listed if one.canary in item.content]
        others += [item for item in listed if item.scope_key == KEY and item.state == "active"]
        assert await problems(clean_db, one.who.agent_id) == []
    assert others  # what shares no word with it stays


async def test_where_nothing_ties_repeats_to_what_they_repeat_canaries_are_left(db: Database, clean_db: Clone) -> None:
    assert shown(clean_db, await histories(db, 12, ties_repeats=False))


#: What is erased, what it came from and what it went into: each rule is needed.
RULES = {
    "no lineage": ("lineage", "k.id = k.origin or o.words && t.words or", "k.id = k.origin or false and"),
    "nothing it came from": ("lineage", "select came_from(p_agent, e.id) union", ""),
    "nothing it went into": ("lineage", "select went_into(p_agent, array[k.id]) union", ""),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
async def test_each_rule_of_the_lineage_is_needed(fresh_db: Clone, rule: str) -> None:
    function, text, wrong = RULES[rule]
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, function, text, wrong)
    async with fresh_db.database() as db:
        assert shown(fresh_db, await histories(db, 15))
