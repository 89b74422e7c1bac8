"""BITMAP: each value of a column with the set of its rows.

One Lance file a segment, `bitmap_page_lookup.lance`: `keys` and `bitmaps` (row address tree maps), one row a
value, nulls first. LABEL_LIST keeps the items of lists in the same form.
"""
