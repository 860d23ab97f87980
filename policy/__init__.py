"""Pure rules: no database, no model, no clock of their own."""
