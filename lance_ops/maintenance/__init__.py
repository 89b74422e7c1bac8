"""Maintenance operations of a dataset: planned, executed as tasks, committed by the driver."""
