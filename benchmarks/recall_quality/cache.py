"""Keeps embeddings in a directory, so that a second run takes seconds."""

import hashlib
from array import array
from collections.abc import Sequence
from pathlib import Path

from mnemic.models.embedders import Embedder
from mnemic.models.embedders.vectors import Vector


class CachedEmbedder:
    """An embedder that asks another one for what the directory does not hold yet."""

    def __init__(self, embedder: Embedder, directory: Path | None) -> None:
        self._embedder = embedder
        self._directory = directory
        self._known: dict[str, Vector] = {}
        self.name = embedder.name
        self.local, self.bands = embedder.local, embedder.bands

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order; what is new is worked out once."""
        new = list(dict.fromkeys(text for text in texts if not self._is_known(text)))
        for text, vector in zip(new, await self._embedder.embed(new), strict=True):
            self._known[text] = vector
            if self._directory is not None:
                self._path(self._directory, text).write_bytes(array("d", vector).tobytes())
        return [self._known[text] for text in texts]

    def _is_known(self, text: str) -> bool:
        if text not in self._known and self._directory is not None:
            path = self._path(self._directory, text)
            if path.is_file():
                self._known[text] = array("f", array("d", path.read_bytes()))
        return text in self._known

    def _path(self, directory: Path, text: str) -> Path:
        return directory / hashlib.sha256(f"{self.name}\n{text}".encode()).hexdigest()
