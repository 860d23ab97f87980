"""Numbered migrations, each run once in a transaction of its own."""
