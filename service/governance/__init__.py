"""Time Machine, erasure, audit and administration."""
