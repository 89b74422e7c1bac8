"""Encodings of values, and values between pages and Arrow."""
