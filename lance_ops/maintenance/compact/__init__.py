"""Compaction: small fragments merged, deleted rows purged."""
