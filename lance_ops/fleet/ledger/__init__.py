"""Ledger: what looks at datasets found, and what operations on them did, in Lance datasets of our own."""
