"""Models and the embedder that the host has made, passed in place of their names."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from mnemic.models.chat import name_of
from mnemic.state.errors import ConfigurationError
from mnemic.state.model_settings import Tier

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel


class ModelOverrides(NamedTuple):
    """Models and embedder of the host."""

    #: Models by tier and by their name in the settings.
    models: "Mapping[tuple[Tier, str], BaseChatModel]" = MappingProxyType({})
    embeddings: "Embeddings | None" = None


NO_OVERRIDES: Final = ModelOverrides()


def split_overrides(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], ModelOverrides]:
    """Split arguments into settings, with names in place of the host's objects, and these objects.

    Raises:
        ConfigurationError: if an object is no chat model, or no embedder.
    """
    settings, models = dict(arguments), dict[tuple[Tier, str], Any]()
    for tier in get_args(Tier):
        key = f"{tier}_model"
        model: Any = settings.get(key)
        if model is not None and not isinstance(model, str):
            settings[key] = name_of(model)
            models[tier, settings[key]] = _required(model, "BaseChatModel", key)
    embeddings: Any = settings.get("embedder")
    if embeddings is None or isinstance(embeddings, str):
        return settings, ModelOverrides(models)
    settings["embedder"] = name_of(embeddings)
    return settings, ModelOverrides(models, _required(embeddings, "Embeddings", "embedder"))


def _required(value: Any, kind: str, setting: str) -> Any:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

    kinds: dict[str, type[object]] = {"BaseChatModel": BaseChatModel, "Embeddings": Embeddings}
    if not isinstance(value, kinds[kind]):
        raise ConfigurationError(f"{setting}: pass a name, or a {kind} of LangChain, not a {type(value).__name__}")
    return value
