"""`mnemic doctor` and `mnemic db`: the database as a whole."""

from pathlib import Path
from typing import Annotated

import typer

from mnemic.service import upkeep
from mnemic.service.cli.options import AsJson
from mnemic.service.cli.terminal import EXIT_FOUND_WRONG, columns, emit, plain, show

Target = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Where to write it.")]


async def doctor(as_json: AsJson = False) -> None:
    """Check the database's set-up and say what to do where it is broken; the exit code is 1 then."""
    findings = await upkeep.doctor()
    if as_json:
        emit(findings)
    else:
        table = columns()
        for finding in findings:
            mark = "[green]ok[/]" if finding.ok else "[red]BROKEN[/]"
            table.add_row(mark, plain(finding.name), plain(finding.remedy or finding.note))
        show(table)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(EXIT_FOUND_WRONG)


async def migrate(as_json: AsJson = False) -> None:
    """Set up the database, or bring it up to date: MNEMIC_MIGRATION_URL or, without it, the embedded server."""
    ran = await upkeep.set_up()
    if as_json:
        emit({"ran": ran})
    else:
        show(*(plain(f"ran {name}") for name in ran), *([] if ran else ["the database is up to date"]))


async def dump(file: Target, as_json: AsJson = False) -> None:
    """Dump the whole database into a file for `pg_restore`."""
    size = await upkeep.dump(file)
    if as_json:
        emit({"file": file, "bytes": size})
    else:
        show(plain(f"{file}: {size:,} bytes"))
