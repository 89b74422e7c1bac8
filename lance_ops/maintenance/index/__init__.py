"""Index operations: build, refresh, rebuild, rename and drop."""
