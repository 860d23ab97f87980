"""Writes the record of definitions that the doctor compares a database with: `make definitions`."""

import asyncio
import os
import shutil
import uuid
from importlib import resources
from pathlib import Path

from mnemic.storage.definitions import RECORD, as_record, read_definitions
from tests.support.server import RUN_VARIABLE, Clone, cloned, ensure_template, run_directory, running_server


async def fresh_record(clone: Clone) -> str:
    """Return the text of the record for a database that was just set up."""
    async with clone.database() as database, database.catalog() as connection:
        return as_record(await read_definitions(connection))


def main() -> None:
    """Write the record of a fresh set-up into the package."""
    os.environ.setdefault(RUN_VARIABLE, uuid.uuid4().hex[:12])
    with running_server() as server, cloned(server, ensure_template(server)) as clone:
        text = asyncio.run(fresh_record(clone))
    shutil.rmtree(run_directory(), ignore_errors=True)
    Path(str(resources.files("mnemic.storage.sql").joinpath(RECORD))).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
