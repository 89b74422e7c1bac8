"""Reference loops: what pages are made of."""
