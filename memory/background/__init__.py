"""Background work: jobs, the sweep that finds due work, and schedules."""
