"""Functions, triggers and rights by subject, made anew where any of their text has changed."""
