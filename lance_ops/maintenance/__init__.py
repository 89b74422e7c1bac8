"""The operations that keep a dataset healthy: planned, executed as tasks, committed by the driver."""
