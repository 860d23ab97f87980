"""What background work costs: a turn's wake-up, an idle worker, and many sessions that turn cold at once."""
