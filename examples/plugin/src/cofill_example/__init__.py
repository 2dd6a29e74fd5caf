"""A completion method, a source, an attack and a strategy that cofill finds when installed."""
