"""The offline rules of each step: plain statements of people about themselves, and nothing in doubt."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

from mnemic.memory.text.shape import MAX_TEXT_BYTES, count_tokens
from mnemic.memory.text.sharing import imitates_prompt
from mnemic.memory.text.words import sentences
from mnemic.models.offline.statements import Statement, spoken, stored
from mnemic.prompts.background.insights import InsightsInput, InsightsOutput
from mnemic.prompts.background.judge_pairs import JudgePairsInput, JudgePairsOutput, PairVerdict, ShownPair
from mnemic.prompts.background.propagate import PropagateInput, PropagateOutput
from mnemic.prompts.consolidation.write_consolidation import WriteConsolidationInput, WriteConsolidationOutput
from mnemic.prompts.conversation import Line
from mnemic.prompts.formation.decide import DecideInput, DecideOutput, Decision, ShownFact
from mnemic.prompts.formation.extraction import (
    ExtractFactsOutput,
    ExtractionInput,
    ExtractObservationsOutput,
    ExtractReflectionsOutput,
    FactDraft,
    ObservationDraft,
    ReflectionDraft,
)
from mnemic.prompts.refinement.refine import RefineInput
from mnemic.state.kinds import MERGEABLE_KINDS
from mnemic.state.refinement import MAX_CALLS, LedgerEntry, ToolCall, Turn


def extract_facts(step_input: ExtractionInput) -> ExtractFactsOutput:
    """Return plain statements of people about themselves; the most important ones if there are too many."""
    facts: list[FactDraft] = []
    for statement in _most_important(_facts(step_input.lines), step_input.limit):
        draft = FactDraft(**_draft(statement), subject=statement.subject, scope="user", provenance="asserted")
        facts.append(draft)
    return ExtractFactsOutput(facts=facts, nothing_else=True)


def decide(step_input: DecideInput) -> DecideOutput:
    """Return ADD, NONE for a repeated fact, or DELETE for another value of the same single attribute."""
    return DecideOutput(decisions=list(map(_decision, step_input.facts)))


def judge_pairs(step_input: JudgePairsInput) -> JudgePairsOutput:
    """Return APART, unless both facts give the same value, or different values, of the same single attribute."""
    return JudgePairsOutput(verdicts=list(map(_pair_verdict, step_input.pairs)))


def extract_reflections(step_input: ExtractionInput) -> ExtractReflectionsOutput:
    """Return lasting instructions; the rules draw no conclusions."""
    user = [ReflectionDraft(**_draft(order)) for order in _orders(step_input.lines)]
    return ExtractReflectionsOutput(agent=[], group=[], user=user, session=[], episode="", nothing_else=True)


def extract_observations(step_input: ExtractionInput) -> ExtractObservationsOutput:
    """Return lasting instructions and facts; the most important ones if there are too many."""
    statements = [*_orders(step_input.lines), *_facts(step_input.lines)]
    observations: list[ObservationDraft] = []
    for statement in _most_important(statements, step_input.limit):
        observations.append(ObservationDraft(**_draft(statement), scope="user"))
    return ExtractObservationsOutput(observations=observations, nothing_else=True)


def write_consolidation(step_input: WriteConsolidationInput) -> WriteConsolidationOutput:
    """Return the sentences of the text and the reflections, each once, without stale ones.

    A newer sentence replaces an older one. Newer sentences come first if the word limit is too small for all.
    """
    fitting: list[str] = []
    for sentence in reversed(_valid_sentences(step_input)):
        text = " ".join([sentence, *fitting])
        if len(text.split()) <= step_input.word_limit and len(text.encode()) <= MAX_TEXT_BYTES:
            fitting.insert(0, sentence)
    return WriteConsolidationOutput(text=" ".join(fitting))


def propagate(step_input: PropagateInput) -> PropagateOutput:
    """Return no number: a table cannot decide which memories concern others."""
    return PropagateOutput(numbers=[])


def insights(step_input: InsightsInput) -> InsightsOutput:
    """Return no insight: the rules draw no conclusions."""
    return InsightsOutput(insights=[])


def refine(step_input: RefineInput) -> Turn:
    """Return the next calls of the batch; none if it is done, and the completion after the last batch.

    The plan follows from the ledger at the beginning of the batch, so that a refused call is not repeated. Exact
    duplicates are already removed. The plan stops at the target, or above it if the table has no more merges.
    """
    merges = _merges(step_input.ledger, step_input.budget.now - step_input.budget.target)
    plan = [("consolidate_memories", merge) for merge in merges]
    if step_input.batch == step_input.batches:
        plan.append(("complete_refinement", {"summary": f"{len(merges)} attributes, each said in one sentence."}))
    begin = sum(len(turn.calls) for turn in step_input.turns)
    calls: list[ToolCall] = []
    for number, (name, arguments) in enumerate(plan[begin : begin + MAX_CALLS], start=begin + 1):
        calls.append(ToolCall(id=f"call_{number}", name=name, arguments=arguments))
    return Turn(calls=tuple(calls))


def _facts(lines: Sequence[Line]) -> list[Statement]:
    return [statement for statement in spoken(lines) if statement.rule.category != "style"]


def _orders(lines: Sequence[Line]) -> list[Statement]:
    """Return lasting instructions; none among people alone (`you` is not the assistant), none in imitated prompts."""
    speakers: set[str] = set()
    imitations: set[int] = set()
    for line in lines:
        if line.role == "user":
            speakers.add(line.speaker)
        if imitates_prompt(line.content):
            imitations.add(line.number)
    if len(speakers) > 1 and all(line.role != "assistant" for line in lines):
        return []
    orders: list[Statement] = []
    for statement in spoken(lines):
        if statement.rule.category == "style" and statement.message not in imitations:
            orders.append(statement)
    return orders


def _most_important(statements: Sequence[Statement], limit: int) -> list[Statement]:
    ranked = sorted(statements, key=lambda statement: -statement.rule.importance)[: max(limit, 0)]
    return [statement for statement in statements if statement in ranked]


def _draft(statement: Statement) -> dict[str, Any]:
    return {
        "content": statement.text,
        "category": statement.rule.category,
        "importance": statement.rule.importance,
        "private": False,
        "messages": [statement.message],
    }


def _decision(fact: ShownFact) -> Decision:
    repeated = [known.number for known in fact.candidates if known.content == fact.content]
    if repeated:
        return Decision(fact=fact.number, reason="", event="NONE", known=repeated, text="")
    closed: list[int] = []
    for known in fact.candidates:
        if known.occurred_at <= fact.occurred_at and _replaces(fact.content, known.content):
            closed.append(known.number)
    if closed:
        return Decision(fact=fact.number, reason="", event="DELETE", known=closed, text=fact.content)
    return Decision(fact=fact.number, reason="", event="ADD", known=[], text=fact.content)


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


def _valid_sentences(step_input: WriteConsolidationInput) -> list[str]:
    """Return the sentences of the text and the reflections that still hold, oldest first."""
    ended = [row.content.rstrip(".").casefold() for row in step_input.stale]
    valid: list[str] = []
    for text in [step_input.current, *(reflection.content for reflection in step_input.reflections)]:
        for sentence in chain.from_iterable(map(sentences, text.splitlines())):
            if sentence not in valid and not any(old in sentence.casefold() for old in ended):
                valid = [old for old in valid if not _replaces(sentence, old)]
                valid.append(sentence)
    return valid


def _merges(ledger: Sequence[LedgerEntry], surplus: int) -> list[dict[str, Any]]:
    """Return arguments of merges that save tokens, until the surplus is saved."""
    merges: list[dict[str, Any]] = []
    for group in _groups(ledger):
        text = _merged_text([statement for _, statement in group])
        saved = sum(entry.tokens for entry, _ in group) - count_tokens(text)
        if surplus > 0 and saved > 0:
            surplus -= saved
            merges.append({"ids_to_merge": [entry.handle for entry, _ in group], "new_content": text})
    return merges


def _merged_text(statements: Sequence[Statement]) -> str:
    """Return one sentence with all values of an attribute, each once."""
    values = {statement.value.casefold(): statement.value for statement in statements}
    *others, last = values.values()
    if others:
        last = f"{', '.join(others)} and {last}"
    return statements[0]._replace(value=last).text


def _groups(ledger: Sequence[LedgerEntry]) -> list[list[tuple[LedgerEntry, Statement]]]:
    """Group memories on the same attribute of the same subject with the same readers."""
    groups: dict[tuple[object, ...], list[tuple[LedgerEntry, Statement]]] = defaultdict(list)
    for entry in ledger:
        statement = stored(entry.content)
        if statement and not statement.rule.is_single and not entry.protected and entry.kind in MERGEABLE_KINDS:
            readers = (entry.subject_user_id, entry.subject, entry.category, entry.private, entry.pinned)
            key = (statement.rule.sentence, statement.subject.casefold(), statement.topic.casefold(), *readers)
            groups[key].append((entry, statement))
    return [group for group in groups.values() if len(group) > 1]
