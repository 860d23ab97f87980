"""Named SQL statements, one file per noun."""
