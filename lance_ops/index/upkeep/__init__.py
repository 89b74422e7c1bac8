"""Upkeep of indices: built, moved along with rewritten fragments, checked, and counted."""
