"""Manifest files, read and written: their sections, and the summary that a list of versions shows."""
