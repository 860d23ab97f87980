"""`python -m mnemic`: the command line."""

from mnemic.service.cli.app import main

main()
