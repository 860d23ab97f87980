"""Embedders: what makes vectors of texts, chosen by the settings."""

from mnemic.models.embedders.base import Embedder, Vector
from mnemic.models.embedders.make import make_embedder

__all__ = ["Embedder", "Vector", "make_embedder"]
