"""Merge insert: update, insert and delete rows of a dataset by a key, in one commit."""
