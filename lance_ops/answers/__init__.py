"""Answers from a dataset: its description, exports, differences between versions, and SQL queries."""
