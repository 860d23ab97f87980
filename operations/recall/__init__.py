"""What a recall is made of, and the explicit query."""
