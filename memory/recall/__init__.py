"""Recalling memories: when to search, ranking, updates."""
