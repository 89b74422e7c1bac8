"""Pure functions from bytes to arrays and back, one technique a module."""
