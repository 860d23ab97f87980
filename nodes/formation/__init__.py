"""The nodes of the formation graph."""
