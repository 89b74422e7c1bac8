"""Job keys: which jobs are committed, their record, and leftover files of their runs."""
