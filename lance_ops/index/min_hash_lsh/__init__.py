"""MINHASHLSH: near duplicates of strings. Segments are kept and remapped, neither built nor searched."""
