"""Oracles: what pages are made of."""
