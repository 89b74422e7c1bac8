"""BLOOMFILTER: a split-block Bloom filter of the values of each zone.

One Lance file a segment: `bloomfilter.lance` (the rows of the zone, `has_null`, `bloom_filter_data`).
"""
