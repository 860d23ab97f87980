"""What travels between the rooms: settings, identity, records, graph states and errors."""
