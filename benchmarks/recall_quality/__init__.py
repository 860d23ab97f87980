"""Recall and precision of searches on LoCoMo's conversations."""
