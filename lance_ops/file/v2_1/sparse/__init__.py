"""Pages of 2.3 that store nesting and nulls as positions and counts instead of levels."""
