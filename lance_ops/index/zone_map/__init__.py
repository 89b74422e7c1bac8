"""ZONEMAP: the least and the greatest value of each zone, how many of its rows are null or NaN.

One Lance file a segment: `zonemap.lance` (`min`, `max`, `null_count`, `nan_count`, and the rows of the zone).
"""
