"""The `Mnemic` object: what an application opens once and holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from pydantic import SkipValidation

from mnemic.operations import agent_settings
from mnemic.operations.run.resources import open_resources
from mnemic.service.conversation import Conversation
from mnemic.service.explicit_memory import ExplicitMemory
from mnemic.service.governance.person import OwnMemories
from mnemic.service.hosts.hosting import Hosting
from mnemic.service.refining import OwnRefinement
from mnemic.service.threads import Threads
from mnemic.state.checking import check_arguments
from mnemic.state.identity import AnyIdentity
from mnemic.state.records import ScopeSettings
from mnemic.state.settings import Settings
from mnemic.state.usage import Usage
from mnemic.storage.opening import describe_database


class Mnemic(Conversation, ExplicitMemory, Hosting, OwnRefinement, OwnMemories, Threads):
    """Long-term memory for agents. Open one with `async with Mnemic.open() as memory:`.

    Every method takes the `Identity` of the run; it sees and writes that identity's scope keys and nothing else. The
    compiled graphs stand in `graphs`. Each base class is a group of methods in a file of its own.
    """

    @classmethod
    @asynccontextmanager
    async def open(cls, **settings: Any) -> AsyncIterator[Self]:
        """Opens database and models; arguments are settings and beat the environment.

        Raises:
            ConfigurationError: a setting does not fit.
            MnemicError: the database or the embedder cannot be had; the message says what to do.
        """
        async with open_resources(Settings(**settings)) as resources:
            yield cls(resources)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.resources.settings

    def describe(self) -> str:
        """Model, embedder and database in use, on one line."""
        resources = self.resources
        return (
            f"model: {resources.models.describe()}; embedder: {resources.embedder.name}; "
            f"database: {describe_database(resources.settings)}"
        )

    @check_arguments
    async def configure_agent(self, identity: AnyIdentity, **overrides: Any) -> None:
        """Sets what the agent overrides of the settings; others that it has set stay, and None takes one back.

        Raises:
            ConfigurationError: a name may not be overridden, or the values do not fit; nothing was written.
        """
        await agent_settings.configure_agent(self.resources, identity, overrides)

    @check_arguments
    async def agent_settings(self, identity: AnyIdentity) -> Settings:
        """The settings in force for the identity's agent, with what it overrides."""
        return await agent_settings.agent_settings(self.resources, identity)

    @check_arguments
    async def configure_scope(self, identity: AnyIdentity, overrides: SkipValidation[ScopeSettings]) -> None:
        """Replaces what one of the identity's scope keys overrides: its name, guidance, threshold and word limit.

        Raises:
            InvalidInputError: the scope key is none of the identity's, or a value cannot be used; nothing was written.
        """
        await agent_settings.configure_scope(self.resources, identity, overrides)

    @check_arguments
    async def usage(self, identity: AnyIdentity) -> list[Usage]:
        """Tokens the agent has used, by step and model."""
        return await agent_settings.token_usage(self.resources, identity)
