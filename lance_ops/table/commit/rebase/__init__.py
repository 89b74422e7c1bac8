"""Rebase: adapt an operation to concurrent commits."""
