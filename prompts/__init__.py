"""All text that models read: a Markdown file for each step, its typed input and output beside it; context and tools."""
