"""Prompts of an agent's tools: descriptions, arguments, answers and refusals."""
