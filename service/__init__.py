"""What a user holds: the `Mnemic` object, its middleware and nodes, and the command line."""
