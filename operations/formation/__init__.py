"""The parts of forming memories that are no graph nodes."""
