"""Recall: whether this turn needs a search, by the words of the question alone. No model."""

from langgraph.runtime import Runtime
from pydantic import TypeAdapter

from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import RecallNode
from mnemic.policy.heuristics import decide_search as judge
from mnemic.policy.hygiene import clean_question
from mnemic.state.checking import checked
from mnemic.state.graphs import RecallInput, RecallState
from mnemic.state.identity import Identity

_INPUT = TypeAdapter(RecallInput)


def decide_search(provide: Provider) -> RecallNode:
    """Asked for, a recall phrase, a question about the past, or names that the standing part will be asked about."""

    async def decide_search(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        resources = await provide()
        asked = checked(_INPUT, state)
        question = clean_question(asked.get("question", ""))
        mode = asked.get("search", "auto")
        if mode == "never" or not resources.settings.rag or not question:
            return {"question": question, "searched": None, "names": []}
        decision = judge(question, asked=mode == "always")
        return {"question": question, "searched": decision.reason, "names": list(decision.names)}

    return decide_search
