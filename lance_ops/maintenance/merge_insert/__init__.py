"""Merge insert: rows of a source update, extend or thin out a dataset by a key, in one commit."""
