"""A refinement without a model: values of one attribute are put into one sentence, and nothing is lost."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from mnemic.models.offline.statements import Statement, stored
from mnemic.policy.text.shape import count_tokens
from mnemic.prompts.refine import RefineInput
from mnemic.state.refinement import MAX_CALLS, LedgerEntry, ToolCall, Turn


def refine(given: RefineInput) -> Turn:
    """The next calls of the batch; none when it is done, and the completion behind the last batch.

    The plan follows from the ledger as it was when the batch began, so that a call that was refused is not repeated.
    Exact duplicates went before. It stops at the target, or above it where the table knows no more.
    """
    made = [call.name for turn in given.turns for call in turn.calls]
    merges = list(_merges(given.ledger, given.budget.now - given.budget.target))
    plan = [("consolidate_memories", merge) for merge in merges]
    if given.batch == given.batches:
        plan.append(("complete_refinement", {"summary": f"{len(merges)} attributes, each said in one sentence."}))
    calls = enumerate(plan[len(made) : len(made) + MAX_CALLS], start=len(made) + 1)
    return Turn(calls=tuple(ToolCall(id=f"call_{number}", name=name, arguments=args) for number, (name, args) in calls))


def _merges(ledger: Sequence[LedgerEntry], wanted: int) -> Iterator[dict[str, Any]]:
    for group in _groups(ledger):
        *others, last = {statement.value.casefold(): statement.value for _, statement in group}.values()
        text = group[0][1]._replace(value=f"{', '.join(others)} and {last}" if others else last).text
        saved = sum(entry.tokens for entry, _ in group) - count_tokens(text)
        if wanted > 0 and saved > 0:
            wanted -= saved
            yield {"ids_to_merge": [entry.handle for entry, _ in group], "new_content": text}


def _groups(ledger: Sequence[LedgerEntry]) -> list[list[tuple[LedgerEntry, Statement]]]:
    """Memories on the same attribute of the same subject, seen by the same."""
    found: dict[tuple[object, ...], list[tuple[LedgerEntry, Statement]]] = defaultdict(list)
    for entry in ledger:
        given = stored(entry.content)
        if given and not given.rule.is_single and not entry.protected and entry.kind in ("core", "reflection"):
            seen_by = (entry.subject_user_id, entry.subject, entry.category, entry.private, entry.pinned)
            found[given.rule.sentence, given.who.casefold(), given.topic.casefold(), *seen_by].append((entry, given))
    return [group for group in found.values() if len(group) > 1]
