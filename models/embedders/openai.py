"""Embeddings of any OpenAI-compatible endpoint."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mnemic.models.answers import failure_kind, refuses_request
from mnemic.models.chat import MAX_RETRIES, openai_endpoint
from mnemic.models.embedders.base import Vector, unit_vectors
from mnemic.policy.formation.bands import Bands
from mnemic.state.errors import ConfigurationError, EmbeddingError, EmbeddingInputError
from mnemic.state.settings import MAX_DIMENSIONS, Settings

#: The most texts the API takes in one request.
MAX_TEXTS = 2048


class OpenAIEmbedder:
    """A model behind `/embeddings`, asked for vectors of the configured length.

    Raises:
        ConfigurationError: there is no key or base URL, or more dimensions are asked for than can be stored.
    """

    local = False
    #: The figures of the design, made for this family of models; `python -m benchmarks.bands --embedder openai:MODEL`
    #: measures them where there is a key.
    bands = Bands(auto=0.95, check=0.70, fallback=0.55)

    def __init__(self, model: str, settings: Settings) -> None:
        # Here and not above: a second of imports that offline use never pays.
        from langchain_openai import OpenAIEmbeddings

        with suppress(ImportError):
            import numpy  # noqa: F401 - where it is, the client would import it on the event loop, at its first answer

        self.dimensions = settings.embedder_dimensions
        if self.dimensions > MAX_DIMENSIONS:
            raise ConfigurationError(
                f"MNEMIC_EMBEDDER_DIMENSIONS is {self.dimensions}; at most {MAX_DIMENSIONS} can be stored"
            )
        self.name = f"openai:{model}:{self.dimensions}"
        self._client = OpenAIEmbeddings(
            model=model,
            dimensions=self.dimensions,
            chunk_size=MAX_TEXTS,
            # Its length check fetches a tokenizer from the network; our texts are far below the limit of 8,191 tokens.
            check_embedding_ctx_length=False,
            max_retries=MAX_RETRIES,
            timeout=settings.model_timeout_seconds,
            **openai_endpoint(settings, "MNEMIC_EMBEDDER"),
        )

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order; one request for up to 2,048 texts.

        Raises:
            EmbeddingInputError: the endpoint refused these texts.
            EmbeddingError: the endpoint could not be used or did not return one usable vector for each text.
        """
        if not texts:
            return []
        try:
            vectors = await self._client.aembed_documents(list(texts))
        except Exception as error:  # noqa: BLE001 - as for chat models: a provider's errors, and no code of ours in there
            is_refused, problem = refuses_request(error), failure_kind(error)
        else:
            if vectors and len(vectors[0]) != self.dimensions:
                raise EmbeddingError(
                    f"{self.name} returned {len(vectors[0])} dimensions: the endpoint does not shorten its vectors, "
                    f"so set MNEMIC_EMBEDDER_DIMENSIONS to what it returns (at most {MAX_DIMENSIONS})"
                )
            return await asyncio.to_thread(unit_vectors, vectors, texts=len(texts), dimensions=self.dimensions)
        # Raised out here so that the client's error, which may quote what was sent, is not chained to it.
        if is_refused:
            raise EmbeddingInputError(
                f"{self.name} refused these texts: {problem}. A wrong model or number of dimensions looks the same: "
                "check MNEMIC_EMBEDDER and MNEMIC_EMBEDDER_DIMENSIONS if every text is refused"
            )
        raise EmbeddingError(f"{self.name} could not be used: {problem}")
