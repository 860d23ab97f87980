"""`python -m mnemic`: the command line."""

from mnemic.service.cli import main

main()
