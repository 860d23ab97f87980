"""Explicit writes: remember, remember_procedure, forget."""
