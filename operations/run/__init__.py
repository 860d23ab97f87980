"""What every run stands on: identity, resources, leases, the event loop, and the graph that it is a run of."""
