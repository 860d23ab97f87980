"""What can be done with memories, one folder per feature: its rules and its operations."""
