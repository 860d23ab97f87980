"""How much of a request a provider's prefix cache can use again."""
