"""Refining the memories of a scope key."""
