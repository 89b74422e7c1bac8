"""Oracles: bits and small integers."""
