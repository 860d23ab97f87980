"""The steps of the graphs: a file, or a folder, for each graph."""
