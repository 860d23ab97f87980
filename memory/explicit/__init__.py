"""Explicit writes: remember, correct, update."""
