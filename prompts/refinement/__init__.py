"""Prompts of a refinement: the turn of its agent, the tools, their answers and refusals."""
