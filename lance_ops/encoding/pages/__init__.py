"""What pages are made of: levels, chunk tables, zipped entries."""
