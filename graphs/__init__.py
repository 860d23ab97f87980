"""Wiring of the graphs: their nodes and edges."""
