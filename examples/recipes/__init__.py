"""Programs to copy: Mnemic in a script, a notebook, a web framework and a worker. docs/sync.md explains them."""
