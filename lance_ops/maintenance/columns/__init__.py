"""Columns are added: by SQL over those that are there, or all null."""
