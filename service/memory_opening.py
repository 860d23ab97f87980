"""The opening of `Mnemic`, which an application calls as `Mnemic.open` or `Mnemic.open_sync`."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from pydantic import SecretStr

from mnemic.memory.runtime.resources import open_resources
from mnemic.models.overrides import split_overrides
from mnemic.service.opening import opening
from mnemic.service.worker import background_work
from mnemic.state.settings import Settings

if TYPE_CHECKING:  # the class needs this module, and only annotations need the others
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

    from mnemic.service.memory import Mnemic


@opening("Mnemic")
async def open_memory(
    *,
    database_url: str | SecretStr | None = None,
    fast_model: "str | BaseChatModel | None" = None,
    slow_model: "str | BaseChatModel | None" = None,
    agent_model: "str | BaseChatModel | None" = None,
    embedder: "str | Embeddings | None" = None,
    base_url: str | SecretStr | None = None,
    api_key: str | SecretStr | None = None,
    background: bool | None = None,
    settings: Settings | None = None,
) -> AsyncIterator["Mnemic"]:
    """Open the database and the models until the block ends.

    Each argument overrides the field of `settings` with its name; None leaves that field unchanged.

    Args:
        database_url: Postgres of the role `mnemic_app`; by default the embedded server.
        fast_model: `provider:model`, or a chat model of LangChain's, for facts, decisions, observations, the
            judgment of pairs, and insights.
        slow_model: the same for reflections, consolidations, and the propagation of memories.
        agent_model: the same for answers and refinements.
        embedder: a name, or an `Embeddings` of LangChain's.
        base_url: an OpenAI-compatible endpoint for models and embedder.
        api_key: its key.
        background: whether to do background work until the block ends.
        settings: all other settings; None for those of the environment.

    Raises:
        ConfigurationError: if a setting does not fit.
        MnemicError: if the database or the embedder is not available; the message has the remedy.
    """
    arguments = {
        "database_url": database_url,
        "fast_model": fast_model,
        "slow_model": slow_model,
        "agent_model": agent_model,
        "embedder": embedder,
        "base_url": base_url,
        "api_key": api_key,
        "background": background,
    }
    overrides, models = split_overrides(arguments)
    from mnemic.service.memory import Mnemic

    async with open_resources(Settings.with_overrides(settings, overrides), models) as resources:
        memory = Mnemic(resources)
        if not resources.settings.background:
            yield memory
            return
        async with background_work(resources, memory.graphs):
            yield memory
