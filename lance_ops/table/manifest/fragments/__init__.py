"""Fragment lists of a version: objects for few fragments, arrays and bytes for many."""
