"""Bytes at a URI."""
