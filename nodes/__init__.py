"""The steps of the graphs, one file each."""
