"""The steps of the graphs, one file each, and what tools and methods do outside of them."""
