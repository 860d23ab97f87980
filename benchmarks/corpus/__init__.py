"""How well the conversations in `examples/` are formed: expected facts against found, wrong and missed."""
