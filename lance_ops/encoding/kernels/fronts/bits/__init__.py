"""Fronts: bits and small integers."""
