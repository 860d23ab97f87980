"""Embedders, which turn texts into vectors: chosen by the settings or passed by the host."""

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol

from mnemic.memory.text.bands import Bands
from mnemic.models.embedders.endpoint import HostEmbedder, OpenAIEmbedder
from mnemic.models.embedders.minilm import MiniLMEmbedder
from mnemic.models.embedders.vectors import Vector, unit_vectors
from mnemic.state.errors import ConfigurationError, EmbeddingInputError
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.embeddings import Embeddings

_LOG = logging.getLogger("mnemic")
#: Refused requests of one call. The texts that are left then get no vector.
MAX_REFUSALS: Final = 64
#: Times that a refused text is halved: eight parts at most.
MAX_HALVINGS: Final = 3
#: Characters. A shorter part is refused for its content and not for its length.
MIN_PART_LENGTH: Final = 50
DEFAULT_EMBEDDER = "openai:text-embedding-3-small"
#: A trigram counts less than a whole word; together they let "berths" meet "berth".
_TRIGRAM_WEIGHT = 0.3
_WORD = re.compile(r"\w+")


class Embedder(Protocol):
    """An embedder: turns texts into unit vectors."""

    #: Whether this process computes the vectors itself, without a remote service.
    local: bool
    #: Cosines of this model that mean a duplicate, a case for the decision step, or a neighbour.
    bands: Bands

    @property
    def name(self) -> str:
        """Name of the model with everything that decides a vector. Only vectors of equal names are compared.

        It is final once a text was embedded.
        """

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order.

        Raises:
            EmbeddingInputError: if the model refused these texts, or a vector is missing, zero or not finite.
            EmbedderUnavailableError: if the model does not respond.
            EmbeddingError: if a setting is wrong, such as the key, the model or the length of its vectors.
        """


def make_embedder(settings: Settings, embeddings: "Embeddings | None" = None) -> Embedder:
    """Make the embedder and, for `minilm`, load its model, which takes 0.3 s and 200 MB.

    It reads files: a coroutine must call it in a thread.

    Args:
        settings: the settings with the name of the embedder.
        embeddings: the embedder of the host, which precedes the settings.

    Raises:
        ConfigurationError: if the name is unknown, a package is missing, or there is no key or base URL.
    """
    if embeddings is not None:
        return HostEmbedder(embeddings)
    name = settings.embedder or (DEFAULT_EMBEDDER if settings.has_endpoint else "minilm")
    return _named(name, settings, "MNEMIC_EMBEDDER")


def make_previous_embedder(settings: Settings) -> Embedder | None:
    """Make the embedder of agents that move to another one, or return None if the settings name none.

    Raises:
        ConfigurationError: if `make_embedder` would raise it.
    """
    name = settings.previous_embedder
    if name is None:
        return None
    model, _, length = name.rpartition(":")
    dimensions: int | None = None
    if length.isdecimal() and ":" in model:
        name, dimensions = model, int(length)
    return _named(name, settings.model_copy(update={"embedder_dimensions": dimensions}), "MNEMIC_PREVIOUS_EMBEDDER")


def _named(name: str, settings: Settings, setting: str) -> Embedder:
    provider, _, model = name.partition(":")
    if provider == "openai" and model:
        return OpenAIEmbedder(model, settings)
    if name == "minilm":
        return MiniLMEmbedder(settings.minilm_path)
    if name == "hash":
        return HashEmbedder()
    raise ConfigurationError(f"{setting} is {name!r}; it may be openai:MODEL, minilm or hash")


class HashEmbedder:
    """Feature hashing of words and character trigrams, for tests: texts are alike by their letters, not by meaning.

    Deterministic on every machine, needs no package, knows no synonyms.
    """

    name = "hash:384"
    dimensions = 384
    local = True
    #: Letters do not separate a changed fact from an unrelated one of the same subject: 9 in 10 pairs of
    #: benchmarks/bands lie at 0.42 to 0.93 and at 0.29 to 0.68. So no rule sets these bands: 12 of 243 pairs for the
    #: decision step lie below `check`, and three quarters of the others above it. The rule's own 0.35 would pass nearly
    #: all of them.
    bands = Bands(auto=0.95, check=0.45, fallback=0.40)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order, computed in a thread."""
        return await in_thread(unit_vectors, map(_hashed, texts), texts=len(texts), dimensions=self.dimensions)


def _hashed(text: str) -> list[float]:
    features = [("", 0.1)]  # so that a text without words has a direction too
    for word in _WORD.findall(text.lower()):
        padded = f"^{word}$"
        features.append((word, 1.0))
        for start in range(len(padded) - 2):
            features.append((f"#{padded[start : start + 3]}", _TRIGRAM_WEIGHT))
    vector = [0.0] * HashEmbedder.dimensions
    for feature, weight in features:
        digest = int.from_bytes(blake2b(feature.encode(errors="replace"), digest_size=8).digest())
        sign = 1 if digest >> 63 else -1
        vector[digest % len(vector)] += sign * weight
    return vector


async def embed_each(model: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """Return one unit vector for each text, in order, or None for a text that the model refuses.

    A refused batch is halved until the refused text is alone. A text that is refused alone is halved at a space; its
    vector is the mean of the vectors of its parts, weighted by their lengths. A warning gives the reason of a refusal.

    Raises:
        EmbedderUnavailableError: if the model does not respond.
        EmbeddingError: if a setting of the model is wrong.
    """
    requests = _Requests(model)
    vectors = await requests.embed_batch(texts) if texts else []
    if missing := sum(vector is None for vector in vectors):
        _LOG.warning("%d of %d texts get no vector for now: %s", missing, len(texts), requests.reason)
    return vectors


class _Requests:
    """Requests for the vectors of one batch."""

    def __init__(self, model: Embedder) -> None:
        self._model = model
        self._refusals_left = MAX_REFUSALS
        #: The error of the last refusal, without words of the texts.
        self.reason = ""

    async def embed_batch(self, texts: Sequence[str]) -> list[Vector | None]:
        if (vectors := await self._embed(texts)) is not None:
            return [*vectors]
        if len(texts) == 1:
            return [await self._embed_in_parts(texts[0])]
        middle = len(texts) // 2
        return await self.embed_batch(texts[:middle]) + await self.embed_batch(texts[middle:])

    async def _embed_in_parts(self, text: str) -> Vector | None:
        parts = [text]
        for _ in range(MAX_HALVINGS):
            halves: list[str] = []
            for part in parts:
                halves += _halves(part)
            if len(halves) == len(parts):
                return None
            parts = halves
            if (vectors := await self._embed(parts)) is not None:
                return _weighted_mean(parts, vectors)
        return None

    async def _embed(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return the vectors, or None if the model refuses the request or has refused too many."""
        if self._refusals_left:
            try:
                return await self._model.embed(texts)
            except EmbeddingInputError as error:
                self.reason = str(error)
            self._refusals_left -= 1
        return None


def _halves(text: str) -> list[str]:
    if len(text) < 2 * MIN_PART_LENGTH:
        return [text]
    middle = len(text) // 2
    space = text.rfind(" ", MIN_PART_LENGTH, middle)
    cut = middle if space < 0 else space
    return [text[:cut], text[cut:]]


def _weighted_mean(parts: Sequence[str], vectors: Sequence[Vector]) -> Vector | None:
    total = [0.0] * len(vectors[0])
    for part, vector in zip(parts, vectors, strict=True):
        for place, value in enumerate(vector):
            total[place] += len(part) * value
    with suppress(EmbeddingInputError):  # the parts cancel one another out
        return unit_vectors([total], texts=1, dimensions=len(total))[0]
    return None
