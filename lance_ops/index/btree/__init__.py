"""BTREE: all values of a column in order with the addresses of their rows, cut into pages, and page bounds.

Two Lance files a segment: `page_data.lance` (`values`, `ids`) and `page_lookup.lance` (`min`, `max`,
`null_count`, `page_idx`, one row a page).
"""
