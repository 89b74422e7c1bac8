"""Fronts: files of indices, and row addresses."""
