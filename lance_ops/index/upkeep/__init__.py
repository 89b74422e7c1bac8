"""Upkeep of indices: built, remapped with rewritten fragments, checked, and counted."""
