"""Formation: the facts of the batch, checked and given to their owners."""

from typing import NamedTuple
from uuid import uuid4

from langgraph.runtime import Runtime

from mnemic.models.steps import EXTRACT_FACTS
from mnemic.operations.formation.drafts import Drafts, crowded_out, run_drafting_step, unfounded
from mnemic.operations.formation.scope_resolver import Draft, ScopeResolver
from mnemic.operations.formation.selection import most_important
from mnemic.operations.messages.transcript import cited, group_name, numbered, own_words, owner_of
from mnemic.operations.run.graph import FormationNode
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.policy.categories import Categories
from mnemic.policy.text.hygiene import clean_text, clip_text
from mnemic.policy.text.search_text import search_text
from mnemic.policy.text.writing import check_text
from mnemic.prompts.extract_facts import ExtractFactsInput, ExtractFactsOutput, FactDraft
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import NewMemory

#: What the text of an assistant, a tool or a pasted document may tell; what somebody is, wants or has to do is theirs
#: to say.
_OPEN_TO_OTHERS = frozenset({"event", "activity", "knowledge", "projects"})
MAX_SUBJECT_CHARS = 100


def extract_facts(provide: Provider) -> FormationNode:
    """One fast call; every text passes the validator, every owner comes from the messages it cites."""

    async def extract_facts(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        if not resources.settings.overridden(state["overrides"]).rag:
            return {"facts": []}
        batch = state["batch"]
        step_input = ExtractFactsInput(
            lines=numbered(batch),
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
            max_facts=state["max_facts"],
            categories=resources.categories.formed,
        )
        build = _Facts(ScopeResolver(batch, identity, step_input.group), resources.categories)
        answer, drafts, facts = await run_drafting_step(
            resources, identity, EXTRACT_FACTS, step_input, build.of_answer, len(batch)
        )
        kept = most_important(facts, state["max_facts"])
        places = {message.id: place for place, message in enumerate(batch)}
        kept.sort(key=lambda fact: (fact.valid_from, places[fact.source_message_ids[-1]]))
        account = drafts.account(state["account"], nothing_else=answer.nothing_else)
        return {
            "facts": kept,
            "private": any(draft.private for draft in answer.facts),
            **drafts.figures(),
            "account": crowded_out(account, facts, kept),
        }

    return extract_facts


class _Facts(NamedTuple):
    """Makes memories of drafts."""

    resolver: ScopeResolver
    categories: Categories

    def of_answer(self, answer: ExtractFactsOutput, drafts: Drafts) -> list[NewMemory]:
        facts: dict[tuple[str, str], NewMemory] = {}
        for draft in answer.facts:
            if fact := self._fact(draft, drafts):
                facts.setdefault((fact.scope_key, fact.content), fact)
        return [*facts.values()]

    def _fact(self, draft: FactDraft, drafts: Drafts) -> NewMemory | None:
        identity = self.resolver.identity
        sources = cited(self.resolver.batch, draft.messages)
        owner = owner_of(sources, identity)
        is_own_word = bool(own_words(sources)) or draft.category in _OPEN_TO_OTHERS
        problem = unfounded(sources, is_own_word=is_own_word, has_owner=owner is not None)
        text = drafts.take(check_text(draft.content, kind="fact"), sources, problem)
        if text is None or owner is None:
            return None
        own_key = scope_key("user", owner)
        key = self.resolver.resolve(_wanted(draft, text), sources, fallback=own_key)
        dated = sources[-1].said_at
        subject = clip_text(" ".join(clean_text(draft.subject).split()), MAX_SUBJECT_CHARS) or "?"
        return NewMemory(
            id=uuid4(),
            kind="fact",
            scope_key=key,
            category=self.categories.stored_as(draft.category),
            content=text,
            search_text=search_text(dated, subject, text),
            subject=subject,
            subject_user_id=owner if key == own_key else None,
            importance=min(5, max(1, draft.importance)),
            private=draft.private,
            provenance=draft.provenance,
            valid_from=dated,
            source_session_id=identity.session_id,
            source_message_ids=tuple(message.id for message in sources),
        )


def _wanted(draft: FactDraft, text: str) -> Draft:
    return Draft(
        scope=draft.scope,
        text=text,
        category=draft.category,
        importance=draft.importance,
        private=draft.private,
        provenance=draft.provenance,
    )
