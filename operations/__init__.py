"""What can be done with memories: one function for each act, used by nodes, tools and faces alike."""
