"""Rules of recall: when to search, how results rank, what fits."""
