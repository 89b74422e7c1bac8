"""IO manager: assets that are datasets; what functions return is written, what others ask for is read."""
