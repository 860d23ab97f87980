"""The nodes of the recall graph."""
