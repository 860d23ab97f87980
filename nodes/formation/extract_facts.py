"""Formation: the facts of the batch, checked and given to their owners."""

from uuid import uuid4

from langgraph.runtime import Runtime

from mnemic.models.answers import Flaw
from mnemic.models.steps import EXTRACT_FACTS
from mnemic.operations.formation.drafts import Drafts, crowded_out, unfounded
from mnemic.operations.formation.relations import most_important
from mnemic.operations.formation.scope_resolver import Draft, Places
from mnemic.operations.messages.speakers import cited, group_name, numbered, own_words, owner_of
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.model_step import perform
from mnemic.operations.run.node_types import FormationNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.policy.categories import Categories
from mnemic.policy.text.hygiene import clean_text, clip_text
from mnemic.policy.text.search_text import search_text
from mnemic.policy.text.writing import check_text
from mnemic.prompts.extract_facts import ExtractFactsInput, ExtractFactsOutput, FactDraft
from mnemic.state.graphs import Account, FormationState
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import Message, NewMemory

#: What the text of an assistant, a tool or a pasted document may tell; what somebody is, wants or has to do is theirs
#: to say.
_TOLD_BY_OTHERS = frozenset({"event", "activity", "knowledge", "projects"})
MAX_SUBJECT_CHARS = 100


def extract_facts(provide: Provider) -> FormationNode:
    """One fast call; every text passes the validator, every owner comes from the messages it cites."""

    async def extract_facts(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        if not resources.settings.overridden(state["overrides"]).rag:
            return {"facts": [], "private": False, "account": Account(cited=[], open=[], nothing_else=None)}
        messages = from_plain(Message, state["batch"])
        step_input = ExtractFactsInput(
            lines=numbered(messages),
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
            max_facts=state["max_facts"],
            categories=resources.categories.formed,
        )
        places = Places(messages, identity, step_input.group)

        def drafted(answer: ExtractFactsOutput) -> tuple[Drafts, list[NewMemory]]:
            drafts = Drafts(EXTRACT_FACTS.prompt, len(messages))
            return drafts, _facts(answer, places, resources.categories, drafts)

        def check(answer: ExtractFactsOutput) -> Flaw | None:
            return drafted(answer)[0].flaw(answer.nothing_else)

        output = await perform(resources, identity, EXTRACT_FACTS, step_input, check)
        drafts, facts = drafted(output)
        kept = most_important(facts, state["max_facts"])
        places_of = {message.id: place for place, message in enumerate(messages)}
        kept.sort(key=lambda fact: (fact.valid_from, places_of[fact.source_message_ids[-1]]))
        return {
            "facts": to_plain(NewMemory, kept),
            "private": any(draft.private for draft in output.facts),
            **drafts.figures(),
            "account": crowded_out(drafts.account(output.nothing_else), facts, kept),
        }

    return extract_facts


def _facts(output: ExtractFactsOutput, places: Places, categories: Categories, drafts: Drafts) -> list[NewMemory]:
    facts: dict[tuple[str, str], NewMemory] = {}
    for draft in output.facts:
        if fact := _fact(draft, places, categories, drafts):
            facts.setdefault((fact.scope_key, fact.content), fact)
    return [*facts.values()]


def _fact(draft: FactDraft, places: Places, categories: Categories, drafts: Drafts) -> NewMemory | None:
    sources = cited(places.batch, draft.messages)
    owner = owner_of(sources, places.identity)
    is_told = bool(own_words(sources)) or draft.category in _TOLD_BY_OTHERS
    problem = unfounded(sources, is_told=is_told, has_owner=owner is not None)
    text = drafts.take(check_text(draft.content, kind="fact"), sources, problem)
    if text is None or owner is None:
        return None
    key = places.key(
        Draft(
            scope=draft.scope,
            text=text,
            category=draft.category,
            importance=draft.importance,
            private=draft.private,
            provenance=draft.provenance,
        ),
        sources,
        fallback=scope_key("user", owner),
    )
    dated = sources[-1].said_at
    subject = clip_text(" ".join(clean_text(draft.subject).split()), MAX_SUBJECT_CHARS) or "?"
    return NewMemory(
        id=uuid4(),
        kind="fact",
        scope_key=key,
        category=categories.stored_as(draft.category),
        content=text,
        search_text=search_text(dated, subject, text),
        subject=subject,
        subject_user_id=owner if key == scope_key("user", owner) else None,
        importance=min(5, max(1, draft.importance)),
        private=draft.private,
        provenance=draft.provenance,
        valid_from=dated,
        source_session_id=places.identity.session_id,
        source_message_ids=tuple(message.id for message in sources),
    )
