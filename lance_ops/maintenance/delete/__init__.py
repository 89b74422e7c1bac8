"""Delete by predicate: deletion vectors, no data file is rewritten."""
