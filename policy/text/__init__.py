"""Rules on texts: words, names, dates, numbers, hygiene, style."""
