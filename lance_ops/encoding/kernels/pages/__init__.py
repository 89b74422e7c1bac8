"""Compiled loops: what pages are made of."""
