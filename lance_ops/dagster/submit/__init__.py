"""Submission of steps to a cluster by `spark-submit`, with results through Dagster Pipes."""
