"""The container of a data file: buffers, column metadata, footer, and what opening it tells."""
