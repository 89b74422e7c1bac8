"""Reads of ordinary table shapes against the official library: shapes x operations, in paired runs."""
