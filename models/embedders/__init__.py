"""Embedders: what makes vectors of texts, chosen by the settings."""

from mnemic.models.embedders.base import Embedder, HashEmbedder, Vector
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings

__all__ = ["Embedder", "Vector", "make_embedder"]


def make_embedder(settings: Settings) -> Embedder:
    """Makes and, for `minilm`, loads the embedder: 0.3 s and 200 MB that an unused one should not cost.

    It reads files, so that a coroutine calls it in a thread.

    Raises:
        ConfigurationError: the name is unknown, a package is missing, or there is no key or base URL.
    """
    name = settings.embedder_name
    provider, _, model = name.partition(":")
    if provider == "openai" and model:
        from mnemic.models.embedders.openai import OpenAIEmbedder

        return OpenAIEmbedder(model, settings)
    if name == "minilm":
        from mnemic.models.embedders.minilm import MiniLMEmbedder

        return MiniLMEmbedder(settings.minilm_path)
    if name == "hash":
        return HashEmbedder()
    raise ConfigurationError(f"MNEMIC_EMBEDDER is {name!r}; it may be openai:MODEL, minilm or hash")
