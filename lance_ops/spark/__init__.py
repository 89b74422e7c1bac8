"""Spark: the session, the runner that executes tasks on executors, and the `lance` data source."""
