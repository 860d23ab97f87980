"""Settings that an agent and its scope keys override."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mnemic.memory.runtime.identity import require_scope_key
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import clean_text, require_text
from mnemic.state.checking import validate
from mnemic.state.identity import Identity
from mnemic.state.records import ScopeChanges, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread
from mnemic.storage import scopes
from mnemic.storage.transaction import ScopedTransaction

_REFINEMENT_TOKENS: Final = frozenset({"refinement_budget_tokens", "refinement_target_tokens"})
#: Maximum of a threshold and of a word limit.
MAX_NUMBER: Final = 100_000
#: Maximum size of a name, in bytes of UTF-8: as long as the ids that it replaces in a line.
MAX_NAME_BYTES: Final = 128


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
    """Override settings of the agent; None removes an override. Nothing is written if it raises.

    Raises:
        ConfigurationError: if a setting may not be overridden, or the values do not fit.
    """
    agent_model = overrides.get("agent_model")
    if agent_model:
        models = resources.models.with_settings(resources.settings.overridden({"agent_model": agent_model}))
        await in_thread(models.require_packages)

    async def configure(tx: ScopedTransaction) -> None:
        merged = {**await scopes.lock_agent(tx), **overrides}
        settings = resources.settings.overridden(merged)
        if not _REFINEMENT_TOKENS.isdisjoint(overrides):
            settings.require_target_within_budget()
        names = {name for name, value in merged.items() if value is not None}
        await scopes.configure_agent(tx, settings.model_dump(mode="json", include=names))

    await resources.database.write(identity, configure)


async def assign_tenant(resources: Resources, identity: Identity, tenant_id: str) -> None:
    """Assign the identity's agent to a tenant."""
    await resources.database.write(identity, lambda tx: scopes.assign_tenant(tx, tenant_id))


async def agent_settings(resources: Resources, identity: Identity) -> Settings:
    """Return the settings of the identity's agent, with its overrides."""
    async with resources.database.transaction(identity) as tx:
        return resources.settings.overridden(await scopes.agent_settings(tx))


async def configure_scope(resources: Resources, identity: Identity, scope_key: str, changes: ScopeChanges) -> None:
    """Change the settings of one of the identity's scope keys; the others stay.

    Raises:
        InvalidInputError: if the scope key is none of the identity's, or a value cannot be used; nothing was written.
    """
    require_scope_key(identity, scope_key)

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
    require_scope_key(identity, scope_key)
    async with resources.database.transaction(identity) as tx:
        settings = await scopes.scope_settings(tx)
    return settings.get(scope_key, ScopeSettings(scope_key=scope_key))
