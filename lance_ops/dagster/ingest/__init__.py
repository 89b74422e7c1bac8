"""Ingests as assets: specification, writing, and the proof that a partition was loaded."""
