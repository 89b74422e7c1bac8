"""Ingest: append, overwrite and replace_where, from any source, in one commit."""
