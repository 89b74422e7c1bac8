"""Examples of how lance_ops is used; they are no part of the package."""
