"""Rules of formation: when to form, what counts as the same, what may be shared."""
