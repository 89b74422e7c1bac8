"""The operations that keep a dataset healthy, each planned, executed as tasks, and committed by the driver."""
