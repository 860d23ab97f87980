"""The command line: `mnemic --help`. It shows what the library does and decides nothing itself."""
