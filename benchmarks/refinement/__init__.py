"""How far a refinement shortens a core memory, and what that costs."""
