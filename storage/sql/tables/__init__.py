"""Tables, indexes and constraints in numbered files, each applied once."""
