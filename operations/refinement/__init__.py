"""One refinement session: its transactions, edits and end."""
