"""Keeps Lance datasets healthy."""
