"""One `.lance` data file: its schema, its container, and the page layouts of each storage version.

A storage version is a package of its own (`v2_0`) behind the same reader and writer.
"""
