"""All text that models read, in a folder for each feature: a Markdown file for each step, with its input and output."""
