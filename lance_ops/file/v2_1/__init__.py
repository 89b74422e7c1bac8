"""Storage versions 2.1 and 2.2: one column a leaf, levels instead of offsets, compressed chunks."""
