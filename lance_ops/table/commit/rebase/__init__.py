"""Rebase: an operation, adapted to what others committed meanwhile."""
