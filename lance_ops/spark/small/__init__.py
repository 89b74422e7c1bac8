"""Small: partitions with few rows become one file, and small files larger ones, before a commit."""
