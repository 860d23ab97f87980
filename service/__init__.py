"""What a user holds: the `Mnemic` object and the command line."""
