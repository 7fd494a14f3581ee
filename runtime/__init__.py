"""The measured side: the same scenarios, really run with JAX and Flax."""
