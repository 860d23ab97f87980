"""Rules that replace language models if none is configured."""
