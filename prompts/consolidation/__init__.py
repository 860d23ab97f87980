"""The prompt of a consolidation."""
