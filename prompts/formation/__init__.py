"""Prompts of formation: extraction, and decisions on new facts."""
