"""Recall: whether this turn needs a search, by the words of the question alone. No model."""

from langgraph.runtime import Runtime

from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import RecallNode
from mnemic.policy.heuristics import decide_search as judge
from mnemic.policy.hygiene import clean_text, clip_text
from mnemic.state.graphs import RecallState
from mnemic.state.identity import Identity

#: Longer questions add nothing to a search and cost the embedder's time.
MAX_QUESTION_CHARS = 2000


def decide_search(provide: Provider) -> RecallNode:
    """Asked for, a recall phrase, a question about the past, or names that the standing part will be asked about."""

    async def decide_search(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        resources = await provide()
        question = clip_text(clean_text(state.get("question", "")), MAX_QUESTION_CHARS)
        mode = state.get("search", "auto")
        if mode == "never" or not resources.settings.rag or not question:
            return {"question": question, "searched": None, "names": []}
        decision = judge(question, asked=mode == "always")
        return {"question": question, "searched": decision.reason, "names": list(decision.names)}

    return decide_search
