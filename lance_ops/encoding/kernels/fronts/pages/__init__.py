"""Fronts: what pages are made of."""
