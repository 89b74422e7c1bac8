"""Manifest files: reading, writing, their sections, and the summary of a version."""
