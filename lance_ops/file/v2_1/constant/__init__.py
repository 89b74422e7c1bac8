"""Constant pages: every value is the same one, or null."""
