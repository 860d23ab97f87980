"""The nodes of the supervisor."""
