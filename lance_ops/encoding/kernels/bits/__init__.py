"""Compiled loops: bits and small integers."""
