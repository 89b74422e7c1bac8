"""Damaged data files: structure-aware, seeded, each to end in a typed error or in a valid table."""
