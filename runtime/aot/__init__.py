"""Ahead-of-time compilation for TPUs that are not there, and what the compiled programs say."""
