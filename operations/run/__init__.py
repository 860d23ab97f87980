"""What every run stands on: identity, resources, leases, metered model steps."""
