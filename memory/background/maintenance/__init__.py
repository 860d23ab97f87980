"""The steps of the daily maintenance."""
