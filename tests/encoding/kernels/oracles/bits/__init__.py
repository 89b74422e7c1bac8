"""Reference loops: bits and small integers."""
