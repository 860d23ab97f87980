"""What agents may call. The tools themselves arrive with the features they belong to."""
