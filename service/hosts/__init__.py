"""Memory in the graphs of a host: middleware, nodes, the supervisor."""
