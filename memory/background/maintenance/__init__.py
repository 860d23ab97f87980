"""The daily maintenance of an agent: its steps, a module each, and the run that does them in order."""
