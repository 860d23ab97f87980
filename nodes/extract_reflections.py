"""Formation: reflections, the widest scope first, and one episode."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langgraph.runtime import Runtime

from mnemic.models.steps import EXTRACT_REFLECTIONS
from mnemic.nodes.lines import cited, group_name, numbered, owner_of, speakers
from mnemic.nodes.perform import perform
from mnemic.nodes.placing import Draft, place
from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import FormationNode
from mnemic.nodes.who import identity_of
from mnemic.nodes.wire import from_plain, to_plain
from mnemic.policy.names import display_name
from mnemic.policy.search_text import search_text
from mnemic.policy.writing import check_text
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, ReflectionDraft, StandingText
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, Scope, scope_key, split_scope_key
from mnemic.state.records import Kind, Message, NewMemory, Standing
from mnemic.storage import memories


def extract_reflections(provide: Provider) -> FormationNode:
    """One slow call that sees what is already in context and the facts just decided on."""

    async def extract_reflections(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        settings = resources.settings.overridden(state["overrides"])
        if not settings.always_in_context:
            return {"thoughts": []}
        batch = from_plain(Message, state["batch"])
        async with resources.database.scoped(identity) as scoped:
            standing = await memories.standing(scoped)
        step_input = ExtractReflectionsInput(
            lines=numbered(batch),
            standing=tuple(_standing_text(part, state["names"]) for part in _showable(standing, batch)),
            new_facts=tuple(row["content"] for row in state["facts"]),
            group=group_name(identity, state["names"]),
            guidance=state["guidance"],
        )
        output = await perform(resources, identity, EXTRACT_REFLECTIONS, step_input)
        checks = {"first_pass": 0, "trimmed": 0, "refused": 0}
        known = {part.text for part in standing} | {row["content"] for row in state["facts"]}
        thoughts: dict[tuple[str, str], NewMemory] = {}
        scopes: tuple[tuple[Scope, Sequence[ReflectionDraft]], ...] = (
            ("agent", output.agent),
            ("group", output.group),
            ("user", output.user),
            ("session", output.session),
        )
        for scope, drafts in scopes:
            for draft in drafts:
                thought, check = _reflection(scope, draft, batch, identity)
                checks[check] += 1
                if thought and not _is_known(thought.content, known):
                    known.add(thought.content)
                    thoughts[thought.scope_key, thought.content] = thought
        episode, episode_check = _episode(output.episode, state, batch, identity)
        if episode_check:
            checks[episode_check] += 1
        found = [*thoughts.values(), *([episode] if episode else [])]
        return {"thoughts": to_plain(NewMemory, found), "checks": checks}

    return extract_reflections


def _showable(standing: Sequence[Standing], batch: Sequence[Message]) -> list[Standing]:
    """Where several people speak, nobody's own memory may colour what is written for the others."""
    alone = len(speakers(batch)) <= 1
    return [part for part in standing if alone or part.scope != "user"]


def _standing_text(part: Standing, names: dict[str, str]) -> StandingText:
    scope, owner = split_scope_key(part.scope_key)
    return StandingText(scope=scope, name=names.get(part.scope_key) or display_name(owner), text=part.text)


def _is_known(content: str, known: set[str]) -> bool:
    """A lower scope holds only what no higher one, and no fact, says already."""
    return any(content.casefold().rstrip(".") in text.casefold() for text in known)


def _reflection(
    scope: Scope, draft: ReflectionDraft, batch: Sequence[Message], identity: Identity
) -> tuple[NewMemory | None, str]:
    sources = cited(batch, draft.messages)
    owner = owner_of(sources, identity)
    verdict = check_text(draft.content, kind="reflection")
    if verdict.text is None or not sources or (scope == "user" and owner is None):
        return None, "refused"
    own_key = scope_key("user", owner) if owner else _session_key(identity)
    key = _session_key(identity) if scope == "session" else own_key
    if scope in ("agent", "group"):
        key = place(
            Draft(
                scope=scope,
                text=verdict.text,
                category=draft.category,
                importance=draft.importance,
                private=draft.private,
                provenance="asserted",
            ),
            sources,
            identity,
            fallback=own_key,
        )
    thought = _thought("reflection", key, verdict.text, sources, identity, category=draft.category)
    importance = min(5, max(1, draft.importance))
    return replace(
        thought, importance=importance, private=draft.private
    ), "trimmed" if verdict.trimmed else "first_pass"


def _episode(
    text: str, state: FormationState, batch: Sequence[Message], identity: Identity
) -> tuple[NewMemory | None, str | None]:
    if not text.strip():
        return None, None
    verdict = check_text(text, kind="episode")
    if verdict.text is None:
        return None, "refused"
    key = _episode_key(batch, state["facts"], identity)
    thought = _thought("episode", key, verdict.text, batch[-1:], identity, category="event")
    return thought, "trimmed" if verdict.trimmed else "first_pass"


def _episode_key(batch: Sequence[Message], facts: Sequence[dict[str, Any]], identity: Identity) -> str:
    """Whose day it was: the one speaker's, the group's where several spoke in its midst, else the session's."""
    who = speakers(batch)
    if len(who) == 1:
        return scope_key("user", who[0])
    if len(identity.group_ids) == 1 and not any(fact["private"] for fact in facts):
        return scope_key("group", identity.group_ids[0])
    return _session_key(identity)


def _session_key(identity: Identity) -> str:
    if identity.session_id is None:
        raise InvalidInputError("formation works on one session: give the identity a session_id")
    return scope_key("session", identity.session_id)


def _thought(
    kind: Kind, key: str, text: str, sources: Sequence[Message], identity: Identity, *, category: str
) -> NewMemory:
    subject = display_name(split_scope_key(key)[1])
    return NewMemory(
        id=uuid4(),
        kind=kind,
        scope_key=key,
        category=category,
        content=text,
        search_text=search_text(sources[-1].said_at, subject, text),
        subject=subject,
        provenance="inferred",
        valid_from=sources[-1].said_at,
        source_session_id=identity.session_id,
        source_message_ids=tuple(message.id for message in sources),
    )
