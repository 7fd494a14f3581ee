"""Configurations of other tools -> files of ours, with a report of what was read, inferred and left out."""

from simulator.importing.hf_config import Asked, Imported, import_model

__all__ = ["Asked", "Imported", "import_model"]
