"""Tools of agents: thin callers of operations."""
