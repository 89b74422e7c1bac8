"""Quantizers: how a partition stores its vectors; whole (flat), as scalars (SQ), products (PQ), bits (RQ)."""
