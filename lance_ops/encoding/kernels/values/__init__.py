"""Compiled loops: values of columns, and text."""
