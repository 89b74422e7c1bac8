"""Checks of a dataset: files, manifest, indices."""
