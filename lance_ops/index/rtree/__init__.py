"""RTREE: the bounding boxes of geometries, packed into pages along a curve, and boxes of pages above them.

Two Lance files a segment: `page_data.lance` (`bbox`, `id`; the geometries first, then level by level the
pages of the level below, the root last) and `nulls.lance` (the null rows).
"""
