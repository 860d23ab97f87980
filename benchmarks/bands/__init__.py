"""Which cosines of two facts mean the same with an embedder, measured on labelled pairs: the ground of its bands."""
