"""Dataset object: reads of one version and operations on the table, by pylance's names."""
