"""Embedders outside this process: an OpenAI-compatible endpoint, or a LangChain `Embeddings` of the host."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mnemic.memory.text.bands import Bands
from mnemic.models.chat import login_of, name_of, openai_endpoint
from mnemic.models.embedders.vectors import Vector, unit_vectors
from mnemic.models.failures import Endpoint, failure_of, retry_policy, shown_address, stated
from mnemic.state.errors import EmbedderUnavailableError, EmbeddingError, EmbeddingInputError
from mnemic.state.model_settings import MAX_DIMENSIONS
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.embeddings import Embeddings

#: Limit of the API of OpenAI.
MAX_TEXTS_PER_REQUEST = 2048
#: Models that make vectors of a requested length; without a request they are longer than the database can keep.
_SHORTENED = "text-embedding-3-"


class RemoteEmbedder:
    """Vectors from an embedder outside this process. The first vectors set the length of all.

    Args:
        endpoint: the endpoint, as errors name it.
        dimensions: the requested length; None for the model's own.
    """

    local = False
    #: The figures of the design, made for the family of models of OpenAI; `python -m benchmarks.bands --embedder
    #: openai:MODEL` measures them where there is a key.
    bands = Bands(auto=0.95, check=0.70, fallback=0.55)

    def __init__(self, endpoint: Endpoint, dimensions: int | None = None) -> None:
        self._endpoint = endpoint
        self._length = dimensions

    @property
    def name(self) -> str:
        """Model and length of the vectors; the length is known after the first ones."""
        if not self._length:
            return self._endpoint.name
        return f"{self._endpoint.name}:{self._length}"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order.

        Raises:
            EmbeddingInputError: if the endpoint refused these texts or did not return one usable vector for each.
            EmbedderUnavailableError: if the endpoint does not respond.
            EmbeddingError: if a setting is wrong, such as the key, the model or the length of its vectors.
        """
        if not texts:
            return []
        try:
            vectors: list[list[float]] = await retry_policy(self._endpoint)(self._vectors, list(texts))
        except Exception as error:  # noqa: BLE001 - as for chat models: a provider's errors, and no code of ours in there
            failure = failure_of(error, self._endpoint)
        else:
            return await self._checked(vectors, len(texts))
        # Raised outside the handler: the client's error may quote the texts and must not be chained.
        if failure.is_refused:
            raise EmbeddingInputError(
                f"{self.name} refused these texts: {stated(failure)}. A wrong model or number of dimensions looks the "
                "same: check MNEMIC_EMBEDDER and MNEMIC_EMBEDDER_DIMENSIONS if every text is refused"
            )
        problem = f"{self.name} could not be used: {stated(failure)}"
        if failure.is_misconfigured:
            raise EmbeddingError(problem)
        raise EmbedderUnavailableError(problem)

    async def _vectors(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    async def _checked(self, vectors: Sequence[Sequence[float]], texts: int) -> list[Vector]:
        length = next((len(vector) for vector in vectors if isinstance(vector, Sequence) and vector), 0)
        if length > MAX_DIMENSIONS:
            raise EmbeddingError(
                f"{self.name} returned {length} dimensions, more than the maximum of {MAX_DIMENSIONS}: set "
                "MNEMIC_EMBEDDER_DIMENSIONS if the model shortens its vectors, or choose another MNEMIC_EMBEDDER"
            )
        if self._length and length and length != self._length:
            raise EmbeddingError(
                f"{self.name} returned {length} dimensions: it does not shorten its vectors, or is another model now. "
                "Set MNEMIC_EMBEDDER_DIMENSIONS to this number, or leave it out"
            )
        units = await in_thread(unit_vectors, vectors, texts=texts, dimensions=length)
        self._length = length
        return units


class OpenAIEmbedder(RemoteEmbedder):
    """A model behind `/embeddings`. A length is requested only if the settings name one or the model's is too long.

    Raises:
        ConfigurationError: if there is no key or base URL.
    """

    def __init__(self, model: str, settings: Settings) -> None:
        # Imported here: it takes a second that offline use never needs.
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit

        with suppress(ImportError):
            import numpy  # noqa: F401 - else the client imports it on the event loop, at its first answer

        dimensions = settings.embedder_dimensions
        if not dimensions and model.startswith(_SHORTENED):
            dimensions = MAX_DIMENSIONS
        address = shown_address(settings.base_url)
        super().__init__(Endpoint(f"openai:{model}", "MNEMIC_EMBEDDER", address), dimensions)
        self._model, self._dimensions = model, dimensions or Omit()
        arguments = openai_endpoint(settings, "MNEMIC_EMBEDDER")
        key = arguments.pop("api_key").get_secret_value()
        if login := login_of(settings.base_url):
            arguments["http_client"] = DefaultAsyncHttpxClient(auth=login)
        self._client = AsyncOpenAI(api_key=key, timeout=settings.model_timeout_seconds, max_retries=0, **arguments)

    async def _vectors(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), MAX_TEXTS_PER_REQUEST):
            part = texts[start : start + MAX_TEXTS_PER_REQUEST]
            answer = await self._client.embeddings.create(input=part, model=self._model, dimensions=self._dimensions)
            rows = answer.data
            if {row.index for row in rows} == set(range(len(rows))):  # other servers answer in order, without numbers
                rows = sorted(rows, key=lambda row: row.index)
            vectors += [row.embedding for row in rows]
        return vectors


class HostEmbedder(RemoteEmbedder):
    """A LangChain `Embeddings` of the host.

    Args:
        embeddings: the embedder; the names of its class and its model name its vectors.
    """

    def __init__(self, embeddings: "Embeddings") -> None:
        super().__init__(Endpoint(name_of(embeddings), "the embedder of the host"))
        self._embeddings = embeddings

    async def _vectors(self, texts: list[str]) -> list[list[float]]:
        return await self._embeddings.aembed_documents(texts)
