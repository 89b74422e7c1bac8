"""Update by SQL expressions: rows are deleted, and written again with new values."""
