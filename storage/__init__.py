"""The only room that knows Postgres: connections, migrations and every SQL statement."""
