"""The text of every model step, one Markdown file each, with its typed input and output beside it."""
