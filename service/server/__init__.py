"""LangGraph Server: authentication, ownership of threads, checkpointer, access."""
