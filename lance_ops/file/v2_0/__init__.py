"""Storage version 2.0: one physical column per field, and a tree of array encodings per page."""
