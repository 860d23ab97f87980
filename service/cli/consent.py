"""What is not done before somebody has said yes: on the command line, or at a terminal."""

import sys

import typer


def withheld(question: str, *, yes: bool, as_json: bool) -> str | None:
    """Why it is not done, there being nothing else against it; None: somebody said yes.

    Args:
        question: asked at a terminal, on standard error, for standard output may be a file.
        yes: it was said on the command line.
        as_json: whoever reads the answer is a program, and is asked nothing.
    """
    if yes:
        return None
    if as_json or not sys.stdin.isatty():
        return "--yes does it"
    return None if typer.confirm(question, err=True) else "as you say"
