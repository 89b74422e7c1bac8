"""Maintenance of a dataset: compaction, index refresh and cleanup, each where it is due."""
