"""Text of a recall: the memory context, and its place in a request."""
