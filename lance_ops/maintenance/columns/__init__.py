"""Column operations: add by SQL or functions, merge, replace, alter."""
