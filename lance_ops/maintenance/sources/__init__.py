"""Sources: files, streams, tables and queries as record batches in bounded memory, one module per kind."""
