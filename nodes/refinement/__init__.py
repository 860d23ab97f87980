"""The nodes of the refinement graph."""
