"""`python -m mnemic.service.cli`."""

from mnemic.service.cli.app import main

main()
