"""Page parts: levels, chunk tables, zipped entries."""
