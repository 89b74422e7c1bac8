"""Segment: the two files of a vector index, written and read, and the shares that tasks make of one."""
