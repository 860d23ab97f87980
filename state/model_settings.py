"""The settings of models: names, endpoint, structured output and prices."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, Secret, SecretStr, field_validator
from pydantic_settings import BaseSettings

from mnemic.state.checking import Own, PositiveInt, Seconds
from mnemic.state.own_names import OwnNames

Arguments = dict[str, dict[str, Any]]
Tier = Literal["fast", "slow", "agent"]
StructuredOutput = Literal["json_schema", "function_calling", "text"]
OFFLINE = "offline"
#: Models by tier if a key or a base URL is set and no model is named.
DEFAULT_MODELS: dict[Tier, str] = {"fast": "openai:gpt-5-mini", "slow": "openai:gpt-5.1", "agent": "openai:gpt-5.1"}
#: A covering index tuple holds 2,704 bytes; 1,024 half floats leave room for the keys beside them.
MAX_DIMENSIONS = 1024


class ModelPrice(BaseModel, metaclass=OwnNames):
    """US dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    #: Price of input from the provider's cache; None for the price of other input.
    cached: Annotated[float, Field(ge=0)] | None = None


class ModelSettings(BaseSettings, metaclass=OwnNames):
    """Settings of models."""

    #: `provider:model` of init_chat_model, or `offline`. None for the default with a key or a base URL, else `offline`.
    fast_model: str | None = None
    slow_model: str | None = None
    agent_model: Own[str | None] = None
    #: OpenAI-compatible endpoint of chat models and embedder. Secret, since it may hold a name and a password.
    base_url: SecretStr | None = None
    api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("api_key", "MNEMIC_API_KEY", "OPENAI_API_KEY")
    )
    #: Maximum silence of a model, and maximum time for an answer with all its requests. The larger of the two limits
    #: the answer.
    model_timeout_seconds: Seconds = 120
    model_deadline_seconds: Seconds = 300
    #: Maximum tokens of one answer. The longest right one, a refinement's 64 calls, has about 10,000 tokens; thoughts
    #: count too.
    max_output_tokens: PositiveInt = 16_384
    #: Method of structured output: the provider's JSON schema, a forced call of a tool, or JSON in plain text.
    structured_output: StructuredOutput = "json_schema"
    #: Arguments of the provider, by the name of the model: `{"openai:gpt-5-mini": {"reasoning_effort": "low"}}`.
    #: Secret, since headers and proxies may hold credentials.
    model_arguments: Secret[Arguments] = Field(default=Secret({}))
    #: Prices by the name of the model: `{"openai:gpt-5-mini": {"input": 0.25, "cached": 0.025, "output": 2}}`.
    model_prices: dict[str, ModelPrice] = Field(default_factory=dict)
    #: `openai:NAME`, `minilm`, or `hash` (tests only). None for the default, as for models.
    embedder: str | None = None
    #: Former embedder, for agents whose vectors are being moved to the other one: as `embedder`, or
    #: `openai:NAME:DIMENSIONS` if its vectors have another length than the model makes by itself.
    previous_embedder: str | None = None
    #: Requested length of vectors. None for the model's own length, or 1,024 for a text-embedding-3.
    embedder_dimensions: Annotated[int, Field(ge=1, le=MAX_DIMENSIONS)] | None = None
    #: Directory with model.onnx for `minilm`. None for the installed package.
    minilm_path: Path | None = None

    @field_validator("fast_model", "slow_model", "agent_model")
    @classmethod
    def _names_a_provider(cls, name: str | None) -> str | None:
        if name is not None and name != OFFLINE and not all(name.partition(":")):
            raise ValueError("must be provider:model, such as openai:gpt-5-mini, or offline")
        return name

    @field_validator("model_arguments", mode="before")
    @classmethod
    def _is_read(cls, arguments: object) -> object:
        """Parse the text of the environment: pydantic-settings does not parse a secret."""
        if not isinstance(arguments, str):
            return arguments
        try:
            return json.loads(arguments)
        except ValueError:  # its context holds the text
            raise ValueError("must be a JSON object") from None

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None:
            return None
        address = url.get_secret_value()
        try:
            urlsplit(address).port  # noqa: B018 - reading it parses it
        except ValueError:  # it quotes the address
            raise ValueError("must have a host and a valid port") from None
        if not re.match("https?://[^/]", address):
            raise ValueError("must begin with http:// or https://, such as http://localhost:8000/v1")
        return url

    def model_for(self, tier: Tier) -> str:
        """Return the chat model of a tier, or `offline` if none is configured."""
        name: str | None = getattr(self, f"{tier}_model")
        if name:
            return name
        if self.has_endpoint:
            return DEFAULT_MODELS[tier]
        return OFFLINE

    @property
    def answer_seconds(self) -> float:
        """Maximum seconds of an answer."""
        return max(self.model_deadline_seconds, self.model_timeout_seconds)

    @property
    def has_endpoint(self) -> bool:
        """Whether a key or a base URL is set."""
        return self.api_key is not None or self.base_url is not None
