"""Zones: what the indices have in common that describe runs of rows instead of naming single ones."""
