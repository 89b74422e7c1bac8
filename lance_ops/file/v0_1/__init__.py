"""Storage version 0.1, which is read but never written."""
