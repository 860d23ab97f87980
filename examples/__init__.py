"""Example conversations, and examples of use."""
