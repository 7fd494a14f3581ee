"""Performance models of speculative sampling."""
