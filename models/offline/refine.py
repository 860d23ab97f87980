"""The step `refine` without a model: what an agent would do to its own core memory, turn by turn."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from mnemic.models.offline.refine_commitments import commitments
from mnemic.models.offline.refine_plan import rewrites
from mnemic.prompts.refine import RefineInput
from mnemic.state.refinement import MAX_CALLS, Budget, LedgerEntry, ToolCall, Turn

#: So much of the last of several batches is empty on average; the others save more for it.
_LAST_IS_EMPTY = 0.5
#: Of the target, so that what is formed meanwhile finds room below it.
_BELOW = 0.99
_MERGEABLE = ("core", "reflection")
_Call = tuple[str, Mapping[str, Any]]


def refine(given: RefineInput) -> Turn:
    """The next turn of the batch: at most 16 calls of what is left of the plan; none when it is done.

    The plan follows from the ledger and the budget as they were when the batch began, so that a call that was refused
    is not repeated. It protects commitments, then puts together what is alike until the target is reached. Where there
    are several batches each saves its share. Behind the plan of the last one the refinement is completed.
    """
    made = sum(len(turn.calls) for turn in given.turns)
    plan = _plan(given.ledger, given.budget, given.batches - given.batch + 1)
    if made < len(plan):
        return _turn(plan[made : made + MAX_CALLS], made)
    if given.batch < given.batches or any(call.name == "complete_refinement" for call in _calls(given)):
        return Turn()
    return _turn([("complete_refinement", {"summary": _summary(given)})], made)


@lru_cache(maxsize=4)  # every turn of a batch asks for the same
def _plan(ledger: tuple[LedgerEntry, ...], budget: Budget, batches_left: int) -> Sequence[_Call]:
    protected = commitments(ledger, budget)
    untouchable = {entry.handle for entry in protected}
    free = [
        entry
        for entry in ledger
        if entry.kind in _MERGEABLE and not entry.protected and entry.handle not in untouchable
    ]
    wanted = budget.now - math.floor(budget.target * _BELOW) if budget.now > budget.target else 0
    needed = math.ceil(wanted / max(1, batches_left - _LAST_IS_EMPTY))
    plan: list[_Call] = [("protect_memory", {"id": entry.handle}) for entry in protected]
    for handles, text, _ in rewrites(free, needed):
        if len(handles) > 1:
            plan.append(("consolidate_memories", {"ids_to_merge": list(handles), "new_content": text}))
        else:
            plan.append(("update_memory", {"id": handles[0], "content": text}))
    return tuple(plan)


def _turn(calls: Sequence[_Call], made: int) -> Turn:
    return Turn(
        calls=tuple(
            ToolCall(id=f"call_{number}", name=name, arguments=dict(arguments))
            for number, (name, arguments) in enumerate(calls, start=made + 1)
        )
    )


def _calls(given: RefineInput) -> Iterator[ToolCall]:
    return (call for turn in given.turns for call in turn.calls)


def _summary(given: RefineInput) -> str:
    names = [call.name for call in _calls(given)]
    merges, updates = names.count("consolidate_memories"), names.count("update_memory")
    return (
        f"In the last batch: {merges} groups of memories on one subject put together, {updates} memories said in fewer "
        f"words, {names.count('protect_memory')} commitments protected."
    )
