"""Recall: whether this turn needs a search, by the words of the question alone. No model."""

from mnemic.policy.recall.heuristics import decide_search as judge
from mnemic.policy.text.hygiene import clean_question
from mnemic.state.checking import input_of
from mnemic.state.graphs import RecallInput, RecallState


async def decide_search(state: RecallState) -> RecallState:
    """Asked for, a recall phrase, a question about the past, or names that the standing part will be asked about."""
    asked = input_of(RecallInput, state)
    question = clean_question(asked.get("question", ""))
    mode = asked.get("search", "auto")
    if mode == "never" or not question:
        return {"question": question, "searched": None, "names": []}
    decision = judge(question, asked=mode == "always")
    return {"question": question, "searched": decision.reason, "names": list(decision.names)}
