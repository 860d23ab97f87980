"""Messages of a session: inbox, threads, turns."""
