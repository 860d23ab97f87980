"""Forming memories from messages: triggers, drafts, decisions."""
