"""Running a graph or an operation: resources, identity, leases, budgets, tracing."""
