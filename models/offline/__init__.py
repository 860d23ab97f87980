"""What stands in where no language model is configured."""
