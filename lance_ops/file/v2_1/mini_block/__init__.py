"""Mini-block pages: small values in compressed chunks."""
