"""Versions: tags and branches, version resolution, history and pins."""
