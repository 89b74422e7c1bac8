"""Transactions: operations and their messages."""
