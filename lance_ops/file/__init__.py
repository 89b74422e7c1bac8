"""One `.lance` data file: its schema, its container, and the page layouts of each storage version.

Each storage version is a package of its own (`v2_0`) with the same reader and writer interface.
"""
