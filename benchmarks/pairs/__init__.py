"""Measures how many near duplicates the daily maintenance merges, and what it merges by mistake."""
