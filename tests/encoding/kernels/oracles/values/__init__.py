"""Oracles: values of columns, and text."""
