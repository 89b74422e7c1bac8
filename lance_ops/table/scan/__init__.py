"""Scans: projection, plan, pruning, fragment rows, and single rows."""
