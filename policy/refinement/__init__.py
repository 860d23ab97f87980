"""Rules of refinement: batches and limits."""
