"""Submit: work of a step goes to a cluster by `spark-submit`, its answers come back by Dagster Pipes."""
