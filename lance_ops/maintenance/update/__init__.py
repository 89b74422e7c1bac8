"""Update by SQL expressions: rows are deleted, and added again with other values."""
