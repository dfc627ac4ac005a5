"""icelens inside other people's tools: a module for each, which needs that tool installed."""
