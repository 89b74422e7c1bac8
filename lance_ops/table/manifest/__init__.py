"""Manifest of a version and its parts: fragments, deletion vectors, row ids, indices, bases."""
