"""Searching with indices: filters narrowed to candidates, and rows by score."""
