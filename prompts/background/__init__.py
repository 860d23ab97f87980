"""Prompts of background work: insights, pairs of similar facts, propagation."""
