"""Container of a data file: buffers, column metadata, footer, and file contents."""
