"""Encodings of bits and small integers."""
