"""Chat models, embedders and the one place that calls a model for a step."""
