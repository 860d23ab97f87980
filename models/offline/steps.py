"""The offline rules of each step: plain statements of people about themselves, and nothing in doubt."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from mnemic.memory.text.shape import MAX_TEXT_BYTES, count_tokens
from mnemic.memory.text.sharing import imitates_prompt
from mnemic.memory.text.words import sentences
from mnemic.models.offline.statements import Statement, spoken, stored
from mnemic.prompts.background.insights import InsightsInput, InsightsOutput
from mnemic.prompts.background.judge_pairs import JudgePairsInput, JudgePairsOutput, PairVerdict, ShownPair
from mnemic.prompts.background.propagate import PropagateInput, PropagateOutput
from mnemic.prompts.consolidation.write_consolidation import WriteConsolidationInput, WriteConsolidationOutput
from mnemic.prompts.conversation import Line
from mnemic.prompts.extraction import (
    DecideInput,
    DecideOutput,
    Decision,
    ExtractFactsOutput,
    ExtractionInput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
    FactDraft,
    ObservationDraft,
    ReflectionDraft,
    ShownFact,
)
from mnemic.prompts.refinement.refine import RefineInput
from mnemic.state.refinement import MAX_CALLS, LedgerEntry, ToolCall, Turn


def extract_facts(given: ExtractionInput) -> ExtractFactsOutput:
    """Return plain statements of people about themselves; the most important ones if there are too many."""
    facts = [
        FactDraft(**_draft(statement), subject=statement.who, scope="user", provenance="asserted")
        for statement in _most_important(_facts(given.lines), given.limit)
    ]
    return ExtractFactsOutput(facts=facts, nothing_else=True)


def decide(given: DecideInput) -> DecideOutput:
    """Return ADD, NONE for a repeated fact, or DELETE for another value of the same single attribute."""
    return DecideOutput(decisions=[_decision(fact) for fact in given.facts])


def judge_pairs(given: JudgePairsInput) -> JudgePairsOutput:
    """Return APART, unless both facts give the same value, or different values, of the same single attribute."""
    return JudgePairsOutput(verdicts=[_pair_verdict(pair) for pair in given.pairs])


def extract_reflections(given: ExtractionInput) -> ExtractReflectionsOutput:
    """Return lasting instructions; the rules draw no conclusions."""
    user = [ReflectionDraft(**_draft(order)) for order in _orders(given.lines)]
    return ExtractReflectionsOutput(agent=[], group=[], user=user, session=[], episode="", nothing_else=True)


def extract_observations(given: ExtractionInput) -> ExtractObservationsOutput:
    """Return lasting instructions and facts; the most important ones if there are too many."""
    kept = _most_important([*_orders(given.lines), *_facts(given.lines)], given.limit)
    drafts = [ObservationDraft(**_draft(statement), scope="user") for statement in kept]
    return ExtractObservationsOutput(observations=drafts, nothing_else=True)


def write_consolidation(given: WriteConsolidationInput) -> WriteConsolidationOutput:
    """Return the sentences of the text and the reflections, each once, without those that are outdated.

    A newer sentence replaces an older one, and is kept first if words are short.
    """
    kept: list[str] = []
    ended = [row.content.rstrip(".").casefold() for row in given.outdated]
    for text in [given.current, *(reflection.content for reflection in given.reflections)]:
        for sentence in (found for line in text.splitlines() for found in sentences(line)):
            if sentence not in kept and not any(old in sentence.casefold() for old in ended):
                kept = [*(old for old in kept if not _replaces(sentence, old)), sentence]
    fitting: list[str] = []
    for sentence in reversed(kept):
        text = " ".join([sentence, *fitting])
        if len(text.split()) <= given.word_limit and len(text.encode()) <= MAX_TEXT_BYTES:
            fitting.insert(0, sentence)
    return WriteConsolidationOutput(text=" ".join(fitting))


def propagate(given: PropagateInput) -> PropagateOutput:
    """Return no number: a table cannot decide which memories concern others."""
    return PropagateOutput(numbers=[])


def insights(given: InsightsInput) -> InsightsOutput:
    """Return no insight: nothing is concluded."""
    return InsightsOutput(insights=[])


def refine(given: RefineInput) -> Turn:
    """Return the next calls of the batch; none if it is done, and the completion after the last batch.

    The plan follows from the ledger at the beginning of the batch, so that a refused call is not repeated. Exact
    duplicates are already removed. It stops at the target, or above it if the table finds no more.
    """
    made = [call.name for turn in given.turns for call in turn.calls]
    merges = list(_merges(given.ledger, given.budget.now - given.budget.target))
    plan = [("consolidate_memories", merge) for merge in merges]
    if given.batch == given.batches:
        plan.append(("complete_refinement", {"summary": f"{len(merges)} attributes, each said in one sentence."}))
    calls = enumerate(plan[len(made) : len(made) + MAX_CALLS], start=len(made) + 1)
    return Turn(calls=tuple(ToolCall(id=f"call_{number}", name=name, arguments=args) for number, (name, args) in calls))


def _facts(lines: Sequence[Line]) -> list[Statement]:
    return [statement for statement in spoken(lines) if statement.rule.category != "style"]


def _orders(lines: Sequence[Line]) -> list[Statement]:
    """Return lasting instructions; none among people alone (`you` is not the assistant), none in imitated prompts."""
    speakers = {line.speaker for line in lines if line.role == "user"}
    if len(speakers) > 1 and all(line.role != "assistant" for line in lines):
        return []
    imitations = {line.number for line in lines if imitates_prompt(line.content)}
    orders = [statement for statement in spoken(lines) if statement.rule.category == "style"]
    return [order for order in orders if order.message not in imitations]


def _most_important(found: Sequence[Statement], most: int) -> list[Statement]:
    ranked = sorted(found, key=lambda statement: -statement.rule.importance)[: max(most, 0)]
    return [statement for statement in found if statement in ranked]


def _draft(statement: Statement) -> dict[str, Any]:
    return {
        "content": statement.text,
        "category": statement.rule.category,
        "importance": statement.rule.importance,
        "private": False,
        "messages": [statement.message],
    }


def _decision(fact: ShownFact) -> Decision:
    repeated = [known.number for known in fact.known if known.content == fact.content]
    if repeated:
        return Decision(fact=fact.number, reason="", event="NONE", known=repeated, text="")
    earlier = [known for known in fact.known if known.dated <= fact.dated]
    closed = [known.number for known in earlier if _replaces(fact.content, known.content)]
    event: Literal["ADD", "DELETE"] = "DELETE" if closed else "ADD"
    return Decision(fact=fact.number, reason="", event=event, known=closed, text=fact.content)


def _pair_verdict(pair: ShownPair) -> PairVerdict:
    earlier, later = stored(pair.earlier), stored(pair.later)
    if earlier and later and earlier.text.casefold() == later.text.casefold():
        return PairVerdict(pair=pair.number, reason="", verdict="SAME", text=pair.later)
    if pair.earlier_on < pair.later_on and _replaces(pair.later, pair.earlier):
        return PairVerdict(pair=pair.number, reason="", verdict="UPDATE", text="")
    return PairVerdict(pair=pair.number, reason="", verdict="APART", text="")


def _replaces(new: str, old: str) -> bool:
    """Return whether a sentence replaces another one."""
    newer = stored(new)
    older = stored(old) if newer else None
    return bool(newer and older and newer.contradicts(older))


def _merges(ledger: Sequence[LedgerEntry], wanted: int) -> Iterator[dict[str, Any]]:
    for group in _groups(ledger):
        *others, last = {statement.value.casefold(): statement.value for _, statement in group}.values()
        text = group[0][1]._replace(value=f"{', '.join(others)} and {last}" if others else last).text
        saved = sum(entry.tokens for entry, _ in group) - count_tokens(text)
        if wanted > 0 and saved > 0:
            wanted -= saved
            yield {"ids_to_merge": [entry.handle for entry, _ in group], "new_content": text}


def _groups(ledger: Sequence[LedgerEntry]) -> list[list[tuple[LedgerEntry, Statement]]]:
    """Group memories on the same attribute of the same subject with the same readers."""
    found: dict[tuple[object, ...], list[tuple[LedgerEntry, Statement]]] = defaultdict(list)
    for entry in ledger:
        given = stored(entry.content)
        if given and not given.rule.is_single and not entry.protected and entry.kind in ("core", "reflection"):
            seen_by = (entry.subject_user_id, entry.subject, entry.category, entry.private, entry.pinned)
            found[given.rule.sentence, given.who.casefold(), given.topic.casefold(), *seen_by].append((entry, given))
    return [group for group in found.values() if len(group) > 1]
