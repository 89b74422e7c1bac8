"""IO manager: assets that are datasets; outputs are written to datasets, inputs are read from them."""
