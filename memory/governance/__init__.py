"""Audit, rollback, retention, erasure."""
