"""Modules that one walk of a message enters."""
