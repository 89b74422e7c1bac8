"""Transactions: the operations that they carry, and their messages."""
