"""Fronts: values of columns, and text."""
