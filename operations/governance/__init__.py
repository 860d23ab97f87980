"""Governance: what was done to memories is looked up, checked, rolled back and erased."""
