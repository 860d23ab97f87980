"""The nodes of the consolidation graph."""
