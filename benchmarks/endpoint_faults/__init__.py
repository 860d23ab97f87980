"""An endpoint that fails in every way: what a person reads, and that nothing is lost."""
