"""Writing the one consolidated text of a scope key."""
