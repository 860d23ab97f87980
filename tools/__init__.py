"""What agents may call: thin tools over operations."""
