"""Whether the tests notice small faults in the product: a fixed list of mutants, run against any checkout."""
