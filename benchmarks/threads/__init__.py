"""What it costs to keep agents' threads in Mnemic's database, beside LangGraph's own Postgres checkpointer."""
