"""A private Postgres server of one's own."""
