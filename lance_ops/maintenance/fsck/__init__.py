"""Fsck: checks of a dataset's files, manifest and indices."""
