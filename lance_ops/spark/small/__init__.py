"""Coalescing before a commit: partitions with few rows share a file, and small files are joined."""
