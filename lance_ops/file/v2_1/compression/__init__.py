"""Compressions of values and levels: choosing, undoing, describing them."""
