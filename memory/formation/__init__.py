"""Forming memories from messages: due conditions, drafts, decisions."""
