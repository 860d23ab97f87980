"""What the memory costs: CPU, waiting time and bytes, beside the same by hand, LangGraph's own store and mem0."""
