"""What an agent and its scope keys override of the settings."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import clean_text, require_text
from mnemic.state.checking import validate
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.records import ScopeChanges, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import scopes
from mnemic.storage.transaction import ScopedTransaction

_OF_REFINEMENT = frozenset({"refinement_budget_tokens", "refinement_target_tokens"})
MAX_NUMBER = 100_000
#: A name stands in one line among others; the ids it stands for may be as long.
MAX_NAME_BYTES = 128


def _name(text: str) -> str:
    return require_text(" ".join(clean_text(text).split()), what="it", max_bytes=MAX_NAME_BYTES)


_Guidance = Annotated[str, AfterValidator(partial(require_text, what="it"))]
_Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


class _Overrides(BaseModel):
    model_config = ConfigDict(strict=True, from_attributes=True, hide_input_in_errors=True)

    scope_key: str
    name: Annotated[str, AfterValidator(_name)] | None
    extraction_guidance: _Guidance | None
    consolidation_guidance: _Guidance | None
    is_active: bool
    threshold: _Number | None
    word_limit: _Number | None


async def configure_agent(resources: Resources, identity: Identity, overrides: dict[str, Any]) -> None:
    """Adds to what the agent overrides; None takes a value back.

    Raises:
        ConfigurationError: a name may not be overridden, or the values do not fit; nothing was written.
    """
    if named := overrides.get("agent_model"):
        own_model = resources.models.with_settings(resources.settings.overridden({"agent_model": named}))
        await asyncio.to_thread(own_model.require_packages)

    async def act(scoped: ScopedTransaction) -> None:
        given = {**await scopes.lock_agent(scoped), **overrides}
        settings = resources.settings.overridden(given)
        if overrides.keys() & _OF_REFINEMENT:
            settings.require_target_within_budget()
        own = {name for name, value in given.items() if value is not None}
        await scopes.configure_agent(scoped, settings.model_dump(mode="json", include=own))

    await resources.database.write(identity, act)


async def assign_tenant(resources: Resources, identity: Identity, tenant_id: str) -> None:
    """Assign the identity's agent to a tenant."""
    await resources.database.write(identity, lambda tx: scopes.assign_tenant(tx, tenant_id))


async def agent_settings(resources: Resources, identity: Identity) -> Settings:
    """The settings in force for the identity's agent."""
    async with resources.database.transaction(identity) as scoped:
        return resources.settings.overridden(await scopes.agent_settings(scoped))


async def configure_scope(resources: Resources, identity: Identity, scope_key: str, changes: ScopeChanges) -> None:
    """Change the settings of one of the identity's scope keys; the others stay.

    Raises:
        InvalidInputError: if the scope key is none of the identity's, or a value cannot be used; nothing was written.
    """
    _require_scope_key(identity, scope_key)

    async def change(tx: ScopedTransaction) -> None:
        await scopes.lock_agent(tx)
        settings = (await scopes.scope_settings(tx)).get(scope_key, ScopeSettings(scope_key=scope_key))
        changed = replace(settings, **changes)
        values = validate(_Overrides, changed, strict=None).model_dump()
        await scopes.configure_scope(tx, replace(changed, **values))

    await resources.database.write(identity, change)


async def scope_settings(resources: Resources, identity: Identity, scope_key: str) -> ScopeSettings:
    """Return the settings of one of the identity's scope keys.

    Raises:
        InvalidInputError: if the scope key is none of the identity's.
    """
    _require_scope_key(identity, scope_key)
    async with resources.database.transaction(identity) as tx:
        settings = await scopes.scope_settings(tx)
    return settings.get(scope_key, ScopeSettings(scope_key=scope_key))


def _require_scope_key(identity: Identity, scope_key: str) -> None:
    if scope_key not in identity.scope_keys:
        raise InvalidInputError("the scope key to configure is none of this identity's")
