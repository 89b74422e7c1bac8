"""MINHASHLSH: near duplicates of texts. Segments are kept and moved along, neither built nor searched."""
