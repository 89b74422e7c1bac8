"""Oracles: files of indices, and row addresses."""
