"""Pure rules of texts: words, details, questions, sharing."""
