"""The step `decide` without a model."""

from mnemic.models.offline.compare import Relation, relation
from mnemic.prompts.decide import DecideInput, DecideOutput, Decision, NewFact


def decide(given: DecideInput) -> DecideOutput:
    """One decision for each new fact. Rules that are not sure add: nothing is lost, and a later step may merge."""
    return DecideOutput(decisions=[_decision(fact) for fact in given.facts])


def _decision(fact: NewFact) -> Decision:
    relations: dict[Relation, list[int]] = {}
    for known in fact.known:
        found = relation(fact.content, known.content)
        if found in ("contradicts", "details") and known.dated > fact.dated:
            continue  # what was said later is not corrected by what was said before it
        relations.setdefault(found, []).append(known.number)
    if contradicted := relations.get("contradicts"):
        return Decision(fact=fact.number, event="DELETE", known=contradicted, text=fact.content)
    if repeated := relations.get("repeats"):
        return Decision(fact=fact.number, event="NONE", known=repeated, text="")
    if detailed := relations.get("details"):
        return Decision(fact=fact.number, event="UPDATE", known=detailed, text=fact.content)
    return Decision(fact=fact.number, event="ADD", known=[], text=fact.content)
