"""Evaluation of a filter on Arrow data."""
