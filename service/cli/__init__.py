"""The command line: `mnemic --help`. It shows what the library does and decides nothing itself."""

import sys


def main() -> None:
    """Run the program `mnemic`. The version is printed without importing the commands, which takes a second."""
    if sys.argv[1:] == ["--version"]:
        from mnemic import __version__

        print(__version__)  # noqa: T201 - the output of the command
        return
    from mnemic.service.cli.app import main as run

    run()
