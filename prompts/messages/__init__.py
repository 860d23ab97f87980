"""Text of a turn: the prompts of the supervisor and its sub-agents."""
